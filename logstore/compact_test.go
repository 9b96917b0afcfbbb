package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"

	"barnabas/internal/vfs"
	"barnabas/logstore/record"

	"github.com/cockroachdb/datadriven"
)

// compactLog compacts the dirty part of a log, whether it is worthwhile or not.
func compactLog(t testing.TB, m *Manager, l *Log) (part dirtyPart, err error) {
	t.Helper()
	part, _ = m.clean.look(t.Context(), l, m.cfg.Now())
	if part.bytes == 0 {
		return part, nil
	}
	ctx, ok := l.cleaning.begin(t.Context())
	if !ok {
		t.Fatal("a compaction is in progress")
	}
	defer l.cleaning.end()
	end, _, err := l.compact(ctx, part, m.cfg.Cleaner.share(m.clean.throttle))
	if err == nil {
		err = m.setCleanedTo(l, end)
	}
	return part, err
}

// script runs a test file's commands on a log.
type script struct {
	t   *testing.T
	c   *clock
	fs  *vfs.Mem
	cfg ManagerConfig
	m   *Manager
	l   *Log
}

func newScript(t *testing.T) *script {
	s := &script{t: t, c: newClock()}
	s.fs = vfs.NewMem(s.c.Now)
	s.cfg = memConfig(s.fs, s.c)
	s.cfg.Default.Compact, s.cfg.Default.Delete = true, false
	s.cfg.Default.FileDeleteDelay = 0
	return s
}

func (s *script) open() {
	s.cfg.FS = s.fs
	s.m = mustOpen(s.t, s.cfg)
	s.l = mustCreate(s.t, s.m)
}

// run executes one command. Times are in ms since the script's beginning.
func (s *script) run(d *datadriven.TestData) string {
	if s.l == nil {
		s.configure(d)
		s.open()
	}
	var err error
	switch d.Cmd {
	case "config":
		s.configure(d)
		s.m.SetConfig(testTP.Topic, s.cfg.Default)
	case "produce":
		err = s.produce(d)
	case "end":
		err = s.end(d)
	case "roll":
		err = s.l.Roll()
	case "later":
		s.c.now = s.c.now.Add(duration(s.t, d.CmdArgs[0].Key))
	case "hw":
		n, _ := strconv.ParseInt(d.CmdArgs[0].Key, 10, 64)
		s.l.SetHighWatermark(n)
	case "truncate":
		n, _ := strconv.ParseInt(d.CmdArgs[0].Key, 10, 64)
		err = s.l.TruncateTo(n)
	case "delete-records":
		n, _ := strconv.ParseInt(d.CmdArgs[0].Key, 10, 64)
		err = s.l.AdvanceLogStart(n)
	case "look":
		return s.look()
	case "compact":
		part, err := compactLog(s.t, s.m, s.l)
		if err != nil {
			return err.Error()
		}
		cleaned, _ := s.m.cleanedTo(s.l)
		return fmt.Sprintf("dirty %d to %d, clean to %d\n%s", part.from, part.upTo, cleaned, s.dump())
	case "restart":
		if err = s.m.Close(); err == nil {
			s.fs = s.fs.Kill()
			s.open()
		}
	case "dump":
		return s.dump()
	default:
		s.t.Fatalf("unknown command %q", d.Cmd)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func duration(t *testing.T, v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (s *script) configure(d *datadriven.TestData) {
	c := &s.cfg.Default
	for _, a := range d.CmdArgs {
		v := strings.Join(a.Vals, ",")
		switch a.Key {
		case "segment-bytes":
			n, _ := strconv.Atoi(v)
			c.SegmentBytes = int32(n)
		case "min-lag":
			c.MinCompactionLag = duration(s.t, v)
		case "max-lag":
			c.MaxCompactionLag = duration(s.t, v)
		case "delete-retention":
			c.DeleteRetention = duration(s.t, v)
		case "map-bytes":
			n, _ := strconv.ParseInt(v, 10, 64)
			s.cfg.Cleaner.DedupeBytes = n
		case "compact":
			c.Compact = v == "true"
		}
	}
}

// produce appends each line of the input as a batch of key=value records; a key alone is a tombstone, =value has no
// key.
func (s *script) produce(d *datadriven.TestData) error {
	for line := range strings.Lines(d.Input) {
		w := record.NewBuilder()
		for _, a := range d.CmdArgs {
			n := int64(0)
			if len(a.Vals) > 0 {
				n, _ = strconv.ParseInt(a.Vals[0], 10, 64)
			}
			switch a.Key {
			case "pid":
				w.ProducerID = n
			case "epoch":
				w.ProducerEpoch = int16(n)
			case "txn":
				w.Transactional = true
			case "codec":
				w.Codec, _ = record.ParseCodec(a.Vals[0])
			}
		}
		if w.ProducerID >= 0 {
			w.ProducerEpoch = max(w.ProducerEpoch, 0)
			w.BaseSequence = s.nextSequence(w.ProducerID)
		}
		for _, field := range strings.Fields(line) {
			key, value, ok := strings.Cut(field, "=")
			k, v := []byte(key), []byte(value)
			if !ok {
				v = nil
			}
			if key == "" {
				k = nil
			}
			w.Add(s.c.now.UnixMilli(), k, v)
		}
		b, err := w.Build()
		if err != nil {
			return err
		}
		if _, err := produce(s.l, b); err != nil {
			return err
		}
		s.l.SetHighWatermark(s.l.LogEndOffset())
	}
	return nil
}

func (s *script) nextSequence(pid int64) int32 {
	for _, p := range s.l.ActiveProducers() {
		if p.ProducerID == pid {
			return record.AddSequence(p.LastSequence, 1)
		}
	}
	return 0
}

// end appends a transaction's marker.
func (s *script) end(d *datadriven.TestData) error {
	pid, _ := strconv.ParseInt(d.CmdArgs[0].Vals[0], 10, 64)
	_, err := s.l.AppendLeader(endMarker(pid, 0, d.HasArg("commit")), LeaderAppend{Origin: Coordinator})
	s.l.SetHighWatermark(s.l.LogEndOffset())
	return err
}

func (s *script) look() string {
	part, more := s.m.clean.look(s.t.Context(), s.l, s.c.Now())
	if part.bytes == 0 {
		return fmt.Sprintf("nothing; more to come %v", more)
	}
	return fmt.Sprintf("dirty %d to %d, ratio %.2f, overdue %v; more to come %v", part.from, part.upTo, part.ratio, part.late > 0, more)
}

// dump describes every segment with its batches and aborted transactions.
func (s *script) dump() string {
	var out strings.Builder
	for _, seg := range *s.l.segments.Load() {
		fmt.Fprintf(&out, "segment %d\n", seg.base)
		f, err := seg.open()
		if err != nil {
			s.t.Fatal(err)
		}
		w := batchWalk{file: f, size: seg.size.Load()}
		for w.next() {
			s.dumpBatch(&out, w.batch)
		}
		if w.err != nil || w.bad != nil {
			s.t.Fatal(w.err, w.bad)
		}
		aborted, err := seg.txns.all()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, a := range aborted {
			fmt.Fprintf(&out, "  aborted: producer %d, %d to %d\n", a.ProducerID, a.FirstOffset, a.LastOffset)
		}
	}
	return out.String()
}

func (s *script) dumpBatch(out *strings.Builder, b record.Batch) {
	fmt.Fprintf(out, "  %d-%d", b.BaseOffset(), b.LastOffset())
	if b.HasProducerID() {
		fmt.Fprintf(out, " pid=%d", b.ProducerID())
	}
	if b.BaseSequence() >= 0 {
		fmt.Fprintf(out, " seq=%d-%d", b.BaseSequence(), b.LastSequence())
	}
	if b.Transactional() {
		out.WriteString(" txn")
	}
	if c := b.Codec(); c != record.None {
		fmt.Fprintf(out, " %v", c)
	}
	if h, ok := b.DeleteHorizon(); ok {
		fmt.Fprintf(out, " horizon=%v", time.Duration(h-newClock().now.UnixMilli())*time.Millisecond)
	}
	out.WriteString(":")
	if b.Control() {
		m, ok, err := parseMarker(b)
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(out, " marker=%v commit=%v\n", ok, m.commit)
		return
	}
	err := b.Records(func(r *record.Record) error {
		value := "=" + string(r.Value)
		if r.Value == nil {
			value = ""
		}
		fmt.Fprintf(out, " %d:%s%s", r.Offset, r.Key, value)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	out.WriteString("\n")
}

// TestCompactScripts tests the rules of compaction; see testdata/compact.
func TestCompactScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/compact", func(t *testing.T, path string) {
		s := newScript(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(d) })
		if s.m != nil {
			if err := s.m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		checkNoLeftovers(t, s.fs)
	})
}

// checkNoLeftovers finds files that no log refers to.
func checkNoLeftovers(t testing.TB, fsys vfs.FS) {
	t.Helper()
	entries, err := fsys.ReadDir("/data/t-0")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), cleanedSuffix) || strings.HasSuffix(e.Name(), swapSuffix) {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

// TestCompactOldMessages: messages of the formats before batches have no delete horizon. Their tombstones are removed
// once the last clean segment was written delete.retention.ms after theirs.
func TestCompactOldMessages(t *testing.T) {
	for magic := range int8(2) {
		t.Run(fmt.Sprintf("magic=%d", magic), func(t *testing.T) {
			s := newScript(t)
			s.cfg.Default.SegmentBytes, s.cfg.Default.DeleteRetention = 190, time.Hour
			s.open()
			add := func(key, value string) {
				t.Helper()
				v := []byte(value)
				if value == "" {
					v = nil
				}
				end := s.l.LogEndOffset()
				m := record.AppendMessage(nil, magic, end, s.c.now.UnixMilli(), []byte(key), v)
				if _, err := s.l.AppendFollower(m); err != nil {
					t.Fatal(err)
				}
				s.l.SetHighWatermark(s.l.LogEndOffset())
			}
			compact := func() string {
				t.Helper()
				if err := s.l.Roll(); err != nil {
					t.Fatal(err)
				}
				if _, err := compactLog(t, s.m, s.l); err != nil {
					t.Fatal(err)
				}
				var left []string
				for _, b := range readAll(t, s.l, s.l.LogEndOffset()) {
					if err := b.Records(func(r *record.Record) error {
						left = append(left, fmt.Sprintf("%d:%s=%s", r.Offset, r.Key, r.Value))
						return nil
					}); err != nil || !b.Valid() {
						t.Fatal(err)
					}
				}
				return strings.Join(left, " ")
			}
			add("a", "1")
			add("b", "1")
			add("b", "")
			add("a", "2")
			if got := compact(); got != "2:b= 3:a=2" {
				t.Errorf("first: %s", got)
			}
			s.c.now = s.c.now.Add(2 * time.Hour)
			add("c", "1 with a value that fills a segment and so is not joined with the others before it, nor with those that come behind it")
			if got := compact(); !strings.HasPrefix(got, "2:b= 3:a=2 4:c=1") {
				t.Errorf("second: %s", got)
			}
			add("d", "1")
			if got := compact(); !strings.HasPrefix(got, "3:a=2 4:c=1") {
				t.Errorf("third: %s", got)
			}
			if err := s.m.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
