package logstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"barnabas/internal/vfs"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/twmb/franz-go/pkg/kerr"
)

// malformedRig is a log directory after a kill or a clean stop, in which a test corrupts a file.
type malformedRig struct {
	*loadingRig
	lines *logtest.Hook
}

func newMalformedRig(t *testing.T, clean bool, change func(*ManagerConfig)) *malformedRig {
	r := &malformedRig{loadingRig: newLoadingRig(t, 2, change)}
	if clean {
		r.reopen()
		r.must(r.m.Close())
	}
	var logger *logrus.Logger
	logger, r.lines = logtest.NewNullLogger()
	r.cfg.Logger = logrus.NewEntry(logger)
	return r
}

// warnings returns the lines of the log above level info.
func (r *malformedRig) warnings() []string {
	var lines []string
	for _, e := range r.lines.AllEntries() {
		if e.Level <= logrus.WarnLevel {
			lines = append(lines, fmt.Sprintf("%s %v", e.Message, e.Data[logrus.ErrorKey]))
		}
	}
	return lines
}

// warned checks that exactly one line was logged, and that it has these parts.
func (r *malformedRig) warned(parts ...string) {
	r.Helper()
	lines := r.warnings()
	if len(lines) != 1 {
		r.Errorf("lines: %q", lines)
		return
	}
	for _, part := range parts {
		if !strings.Contains(lines[0], part) {
			r.Errorf("%q does not mention %q", lines[0], part)
		}
	}
}

func (r *malformedRig) spoil(name, content string) {
	r.Helper()
	r.must(vfs.WriteFile(r.mem, name, []byte(content)))
}

// malformedContents are contents of a checkpoint file, each with its wrong line.
var malformedContents = map[string]struct {
	content string
	line    int
}{
	"garbage":               {"\x00\xffgarbage", 1},
	"zeros":                 {strings.Repeat("\x00", 40), 1},
	"one line":              {"0", 1},
	"wrong version":         {"1\n1\nt 0 2\n", 1},
	"version is no number":  {"x\n1\nt 0 2\n", 1},
	"count is no number":    {"0\nx\nt 0 2\n", 2},
	"truncated":             {"0\n2\nt 0 2\n", 2},
	"too much":              {"0\n1\nt 0 2\nt 1 2\n", 2},
	"a field is missing":    {"0\n2\nt 0 2\nt 1\n", 4},
	"partition is none":     {"0\n2\nt 0 2\nt x 2\n", 4},
	"offset is no number":   {"0\n1\nt 0 2x\n", 3},
	"offset is below zero":  {"0\n1\nt 0 -2\n", 3},
	"offset is too large":   {"0\n1\nt 0 99999999999999999999\n", 3},
	"partition is too low":  {"0\n1\nt -1 2\n", 3},
	"an empty line between": {"0\n3\nt 0 2\n\nt 1 2\n", 4},
}

// TestMalformedCheckpoints starts on a directory with a checkpoint file that cannot be parsed: the directory is used,
// no record is lost, a line says what is wrong where, and the file is repaired afterwards.
func TestMalformedCheckpoints(t *testing.T) {
	type want struct{ start, hw int64 }
	for _, clean := range []bool{false, true} {
		hw := int64(2)
		for file, want := range map[string]want{
			recoveryPointFile: {1, hw}, logStartFile: {0, hw}, highWatermarkFile: {1, 1}, cleanerFile: {1, hw},
		} {
			for name, malformed := range malformedContents {
				t.Run(fmt.Sprintf("%s/%s/clean=%v", file, name, clean), func(t *testing.T) {
					r := newMalformedRig(t, clean, func(cfg *ManagerConfig) { cfg.Default.Compact = true })
					r.spoil("/data/"+file, malformed.content)
					r.reopen()
					r.warned("/data/"+file, fmt.Sprintf("line %d ", malformed.line))
					for p := range 2 {
						if got := offsets(r.log(p)); got[0] != want.start || got[1] != want.hw || got[3] != 3 {
							t.Errorf("%v: %v", tpOf(p), got)
						}
						r.must(r.m.setCleanedTo(r.log(p), 1))
					}
					r.must(r.m.Close())
					if got, err := readCheckpoint(r.mem, "/data/"+file); err != nil || len(got) != 2 && want.start == 1 {
						t.Errorf("the file then has %v %v", got, err)
					}
				})
			}
		}
	}
}

// TestBreakWithoutRecoveryPoints: a log has a damaged batch, and it is unknown what was flushed. Damage at the end of
// the log is considered the result of a crash; with any other the log stays offline, also after further starts.
func TestBreakWithoutRecoveryPoints(t *testing.T) {
	for _, test := range []struct {
		name    string
		roll    bool // the third batch begins another segment
		at      int64
		damaged bool
		end     int64
	}{
		{"the last batch", false, 200, false, 2},
		{"a batch before others", false, 100, true, 3},
		{"a closed segment", true, 100, true, 3},
		{"the only batch of the last segment", true, 200, false, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newMalformedRig(t, false, nil)
			r.reopen()
			l := r.log(0)
			if test.roll {
				r.must(l.TruncateTo(2), l.Roll())
				mustProduce(t, l, batchOf(1000, "2"))
			}
			segments := *l.segments.Load()
			r.m.giveUp()
			r.mem = r.mem.Kill()
			at, s := test.at, segments[0]
			if last := segments[len(segments)-1]; last != s && at >= 140 {
				at, s = at-140, last
			}
			f, err := r.mem.OpenFile(s.path(logSuffix), vfs.ReadWrite)
			r.must(err)
			_, err = f.WriteAt([]byte{0xff}, at)
			r.must(err, f.Close())
			r.spoil("/data/"+recoveryPointFile, "garbage")
			before := filesIn(t, r.mem, dirOf(0))
			r.reopen()
			for range 2 {
				if damaged := r.log(0).Usable() != nil; damaged != test.damaged {
					t.Fatalf("offline: %v, %v", damaged, r.warnings())
				}
				if test.damaged {
					after := filesIn(t, r.mem, dirOf(0))
					for name, data := range before {
						if strings.HasSuffix(name, logSuffix) && !slices.Equal(after[name], data) {
							t.Errorf("%s had %d bytes, now %d", name, len(data), len(after[name]))
						}
					}
				} else if got := r.log(0).LogEndOffset(); got != test.end {
					t.Errorf("the log ends at %d", got)
				}
				if got := r.log(1).LogEndOffset(); got != 3 {
					t.Errorf("the other log ends at %d", got)
				}
				r.must(r.m.checkpointOffsets(r.m.disks[0]))
				r.restart()
			}
			r.must(r.m.Close())
		})
	}
}

// TestMalformedLeaderEpochs: the epochs are rebuilt from the records.
func TestMalformedLeaderEpochs(t *testing.T) {
	for _, clean := range []bool{false, true} {
		for name, malformed := range map[string]string{"garbage": "\x00\xff", "version": "1\n0\n", "no number": "0\n1\nx 0\n",
			"truncated": "0\n2\n0 0\n", "below zero": "0\n1\n-1 0\n", "a number too many": "0\n1\n3 0 7\n"} {
			t.Run(fmt.Sprintf("%s/clean=%v", name, clean), func(t *testing.T) {
				r := newMalformedRig(t, false, nil)
				r.reopen()
				l := r.log(0)
				for epoch := int32(3); epoch < 6; epoch++ {
					if epoch == 4 {
						r.must(l.Roll())
					}
					_, err := l.AppendLeader(batchOf(1000, "v").MustBuild(), LeaderAppend{ProduceVersion: 9, LeaderEpoch: epoch})
					r.must(err)
				}
				want := slices.Clone(l.epochs.mu.entries)
				if clean {
					r.must(r.m.Close())
				} else {
					r.must(l.Flush(), r.m.checkpointOffsets(r.m.disks[0]))
					r.m.giveUp()
					r.mem = r.mem.Kill()
				}
				r.lines.Reset()
				r.spoil(dirOf(0)+"/"+epochFile, malformed)
				r.reopen()
				r.warned(dirOf(0)+"/"+epochFile, "line ")
				for range 2 {
					if diff := cmp.Diff(want, r.log(0).epochs.mu.entries, cmp.AllowUnexported(epochEntry{})); diff != "" {
						t.Error(diff)
					}
					r.restart()
				}
				r.must(r.m.Close())
			})
		}
	}
}

// TestMalformedPartitionMetadata: a log whose topic id cannot be read stays offline, since it may belong to an earlier
// topic of that name.
func TestMalformedPartitionMetadata(t *testing.T) {
	for name, malformed := range map[string]string{"garbage": "\x00\xff", "empty": "", "version": "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
		"no id": "version: 0\n", "short id": "version: 0\ntopic_id: AAAA"} {
		t.Run(name, func(t *testing.T) {
			r := newMalformedRig(t, false, nil)
			file := dirOf(0) + "/" + partitionMetadataFile
			r.spoil(file, malformed)
			before := filesIn(t, r.mem, dirOf(0))
			r.reopen()
			r.warned(file, "remove it")
			if _, err := r.m.GetOrCreate(tpOf(0), [16]byte{7}, r.cfg.Default, false); codeOf(err) != kerr.KafkaStorageError.Code {
				t.Errorf("the log without an id: %v", err)
			}
			mustProduce(t, r.log(1), batchOf(1000, "more"))
			r.must(r.m.Close())
			if diff := cmp.Diff(before, filesIn(t, r.mem, dirOf(0))); diff != "" {
				t.Error(diff)
			}
			r.must(r.mem.Remove(file))
			r.reopen()
			if got := offsets(r.log(0)); got != [4]int64{1, 2, 2, 3} {
				t.Errorf("without the file: %v", got)
			}
			r.must(r.m.Close())
		})
	}
}

// TestMalformedMetaProperties: the directory is taken offline, since it may belong to another broker.
func TestMalformedMetaProperties(t *testing.T) {
	for name, malformed := range map[string]string{"empty": "", "version": "version=1\nbroker.id=1\ncluster.id=test\n", "id": "version=0\nbroker.id=x\ncluster.id=test\n"} {
		t.Run(name, func(t *testing.T) {
			r := newMalformedRig(t, false, func(cfg *ManagerConfig) { cfg.Dirs = []string{"/data", "/other"} })
			r.spoil("/data/"+metaFile, malformed)
			r.reopen()
			r.warned("/data/" + metaFile)
			if got := r.m.OfflineDirs(); !slices.Equal(got, []string{"/data"}) {
				t.Errorf("offline: %v", got)
			}
			if got := offsets(r.log(1)); got != [4]int64{1, 2, 2, 3} {
				t.Errorf("in the other directory: %v", got)
			}
			r.must(r.m.Close())
		})
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add("0\n2\na 10 0\nb 1 7\n")
	for _, name := range slices.Sorted(maps.Keys(malformedContents)) {
		f.Add(malformedContents[name].content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		fsys := vfs.NewMem(newClock().Now)
		if err := errors.Join(fsys.MkdirAll("/d"), vfs.WriteFile(fsys, "/d/c", []byte(content))); err != nil {
			t.Fatal(err)
		}
		offsets, err := readCheckpoint(fsys, "/d/c")
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatal(err)
			}
			return
		}
		if err := writeCheckpoint(fsys, "/d/c", offsets); err != nil {
			t.Fatal(err)
		}
		if again, err := readCheckpoint(fsys, "/d/c"); err != nil || !maps.Equal(offsets, again) {
			t.Errorf("%q: %v, then %v %v", content, offsets, again, err)
		}
	})
}
