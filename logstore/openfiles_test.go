package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"barnabas/internal/vfs"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestOpenFilesAreBounded writes to and reads from more segments than may be open.
func TestOpenFilesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := memConfig(vfs.NewMem(time.Now), nil)
		cfg.Now, cfg.MaxOpenFiles = time.Now, 10
		cfg.Default.SegmentBytes, cfg.Default.IndexIntervalBytes = 300, 100
		m := mustOpen(t, cfg)
		m.Start()
		var logs []*Log
		for i := range 15 {
			l, err := m.GetOrCreate(TopicPartition{"t", int32(i)}, [16]byte{7}, cfg.Default, true)
			if err != nil {
				t.Fatal(err)
			}
			for j := range 10 {
				mustProduce(t, l, batchOf(time.Now().UnixMilli(), fmt.Sprint("value ", j)))
			}
			l.SetHighWatermark(l.LogEndOffset())
			logs = append(logs, l)
			synctest.Wait()
			if n := m.env.fs.count.Load(); n > 10 {
				t.Fatalf("%d files are open", n)
			}
		}
		held, err := logs[0].Read(0, 1000, 10, true)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for _, l := range logs {
				if n := len(readAll(t, l, 10)); n != 10 {
					t.Errorf("%d batches", n)
				}
				synctest.Wait()
				if n := m.env.fs.count.Load(); n > 10 {
					t.Fatalf("%d files are open", n)
				}
			}
		}
		if data, err := held.Append(nil); err != nil || len(data) == 0 || held.seg.file.Load() == nil {
			t.Errorf("the file of a reader was closed: %v", err)
		}
		held.Close()
		for _, l := range logs { // and they continue to work
			mustProduce(t, l, batchOf(time.Now().UnixMilli(), "more"))
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if n := m.env.fs.count.Load(); n != 0 {
			t.Errorf("%d files are open after Close", n)
		}
	})
}

// TestOpenFilesUnderLoad appends and reads, with real files, while files are being closed all the time.
func TestOpenFilesUnderLoad(t *testing.T) {
	cfg := memConfig(vfs.OS{}, nil)
	cfg.Dirs, cfg.Now, cfg.MaxOpenFiles = []string{t.TempDir()}, time.Now, 2
	cfg.Default.SegmentBytes, cfg.Default.IndexIntervalBytes = 2000, 100
	m := mustOpen(t, cfg)
	m.Start()
	var work sync.WaitGroup
	for i := range 4 {
		l, err := m.GetOrCreate(TopicPartition{"t", int32(i)}, [16]byte{7}, cfg.Default, true)
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() {
			for j := range int64(300) {
				if _, err := produce(l, batchOf(time.Now().UnixMilli(), fmt.Sprintf("value %100d", j)).MustBuild()); err != nil {
					t.Error(err)
					return
				}
			}
		})
		work.Go(func() {
			for at := int64(0); at < 300; {
				r, err := l.Read(at, 1000, l.LogEndOffset(), true)
				if err != nil {
					t.Error(err)
					return
				}
				if data, err := r.Append(nil); err != nil {
					t.Error(err)
					return
				} else if len(data) > 0 {
					at++
				}
				r.Close()
			}
		})
	}
	work.Wait()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTooManyOpenFiles: reaching the process's limit of open files is not treated as a failure of the disk.
func TestTooManyOpenFiles(t *testing.T) {
	l, _ := newTestLog(t, func(c *Config) { c.SegmentBytes = 200 })
	for range 4 {
		mustProduce(t, l, batchOf(1, "value"))
	}
	fsys := l.env.fs.FS.(*vfs.Mem)
	fsys.SetFault(func(op, _ string) error {
		if op == "open" {
			return &fs.PathError{Op: op, Path: "x", Err: syscall.EMFILE}
		}
		return nil
	})
	var err error
	for range 4 {
		if _, err = produce(l, batchOf(1, "value").MustBuild()); err != nil {
			break
		}
	}
	if !errors.Is(err, kerr.KafkaStorageError) {
		t.Errorf("%v", err)
	}
	fsys.SetFault(nil)
	mustProduce(t, l, batchOf(1, "value"))
}
