package vfs_test

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"barnabas/internal/vfs"

	"github.com/google/go-cmp/cmp"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write creates a file with content, synced on request.
func write(t *testing.T, fsys vfs.FS, name, content string, sync bool) {
	t.Helper()
	f, err := fsys.OpenFile(name, vfs.ReadWrite|vfs.Create|vfs.Truncate)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err)
	if sync {
		must(t, f.Sync())
	}
	must(t, f.Close())
}

func read(fsys vfs.FS, name string) string {
	b, err := fsys.ReadFile(name)
	if err != nil {
		return "error"
	}
	return string(b)
}

// TestFileSystemsAgree: both file systems behave the same in everything that matters to a log.
func TestFileSystemsAgree(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS{}, "mem": vfs.NewMem(time.Now)} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "b")
			in := func(name string) string { return filepath.Join(dir, name) }
			if _, err := fsys.OpenFile(in("x"), vfs.ReadWrite|vfs.Create); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("file in a missing directory: %v", err)
			}
			must(t, fsys.MkdirAll(dir))
			must(t, fsys.MkdirAll(dir))
			if _, err := fsys.OpenFile(in("x"), vfs.ReadWrite); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("missing file: %v", err)
			}
			write(t, fsys, in("x"), "hello", true)
			must(t, fsys.SyncDir(dir))
			if _, err := fsys.OpenFile(in("x"), vfs.ReadWrite|vfs.Create|vfs.Exclusive); !errors.Is(err, fs.ErrExist) {
				t.Errorf("exclusive: %v", err)
			}
			checkFile(t, fsys, in("x"))

			must(t, vfs.WriteFile(fsys, in("y"), []byte("one")))
			must(t, vfs.WriteFile(fsys, in("y"), []byte("two")))
			must(t, fsys.Rename(in("y"), in("x")))
			if got := read(fsys, in("x")); got != "two" {
				t.Errorf("renamed file has %q", got)
			}
			must(t, fsys.MkdirAll(in("d/e")))
			write(t, fsys, in("d/e/f"), "deep", false)
			if err := fsys.Remove(in("d")); err == nil {
				t.Error("removed a directory that is not empty")
			}
			must(t, fsys.Rename(in("d"), in("g")))
			if got := read(fsys, in("g/e/f")); got != "deep" {
				t.Errorf("file in a renamed directory has %q", got)
			}
			entries, err := fsys.ReadDir(dir)
			must(t, err)
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if want := []string{"g", "x"}; !cmp.Equal(names, want) {
				t.Errorf("directory has %v, want %v", names, want)
			}
			must(t, fsys.RemoveAll(in("g")))
			must(t, fsys.RemoveAll(in("g")))
			must(t, fsys.Remove(in("x")))
			for _, err := range []error{fsys.Remove(in("x")), fsys.Rename(in("x"), in("z"))} {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("missing file: %v", err)
				}
			}
			if _, err := fsys.Stat(in("x")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("missing file: %v", err)
			}
			if total, usable, err := fsys.Usage(dir); err != nil || usable <= 0 || total < usable {
				t.Errorf("usage %d of %d, %v", usable, total, err)
			}
		})
	}
}

// checkFile uses a file with the content "hello" as a log uses its files.
func checkFile(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	f, err := fsys.OpenFile(name, vfs.ReadWrite)
	must(t, err)
	defer f.Close()
	buf := make([]byte, 8)
	if n, err := f.ReadAt(buf, 1); n != 4 || err != io.EOF || string(buf[:n]) != "ello" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	if n, err := f.ReadAt(buf, 99); n != 0 || err != io.EOF {
		t.Errorf("read beyond the end: %d, %v", n, err)
	}
	must(t, f.Truncate(10))
	if got := read(fsys, name); got != "hello\x00\x00\x00\x00\x00" {
		t.Errorf("extended file has %q", got)
	}
	m, err := f.Map(10)
	must(t, err)
	copy(m.Bytes()[6:], "map")
	must(t, m.Sync())
	if got := read(fsys, name); got != "hello\x00map\x00" {
		t.Errorf("written through the mapping: %q", got)
	}
	_, err = f.WriteAt([]byte("J"), 0)
	must(t, err)
	if m.Bytes()[0] != 'J' {
		t.Error("the mapping does not show what was written")
	}
	must(t, m.Unmap())
	checkReserve(t, f)
	if n, err := f.WritePartsAt([][]byte{[]byte("ab"), nil, []byte("c")}, 1); n != 3 || err != nil || !strings.HasPrefix(read(fsys, name), "Jabco") {
		t.Errorf("wrote %d bytes in parts, %v: %q", n, err, read(fsys, name))
	}
	must(t, f.Truncate(2))
	if size, err := f.Size(); err != nil || size != 2 {
		t.Errorf("size %d, %v", size, err)
	}
}

// checkReserve: reserving space leaves the length as it is, and truncating to the same length gives it back.
func checkReserve(t *testing.T, f vfs.File) {
	t.Helper()
	before, err := f.Size()
	must(t, err)
	err = f.Reserve(before, 1<<20)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	must(t, err)
	blocks := occupied(t, f)
	must(t, f.Truncate(before))
	if size, err := f.Size(); err != nil || size != before {
		t.Errorf("size %d after reserving, %v; want %d", size, err, before)
	}
	if f.OS() != nil && (blocks < 1<<20 || occupied(t, f) >= 1<<20) {
		t.Errorf("takes %d bytes after reserving 1 MiB, and %d after giving it back", blocks, occupied(t, f))
	}
}

// occupied returns the space that a file takes, in bytes.
func occupied(t *testing.T, f vfs.File) int64 {
	t.Helper()
	if f.OS() == nil {
		return 0
	}
	st, err := f.OS().Stat()
	must(t, err)
	return st.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestLock(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS{}, "mem": vfs.NewMem(time.Now)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, fsys.MkdirAll(dir))
			lock, err := fsys.Lock(filepath.Join(dir, ".lock"))
			must(t, err)
			if _, err := fsys.Lock(filepath.Join(dir, ".lock")); !errors.Is(err, vfs.ErrLocked) {
				t.Errorf("second lock: %v", err)
			}
			must(t, lock.Close())
			lock, err = fsys.Lock(filepath.Join(dir, ".lock"))
			must(t, err)
			must(t, lock.Close())
		})
	}
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := vfs.NewMem(time.Now)
	must(t, m.MkdirAll("/d"))
	must(t, m.SyncDir("/"))
	must(t, m.SyncDir("/d"))
	write(t, m, "/d/synced", "synced", true)
	write(t, m, "/d/grown", "begin", true)
	write(t, m, "/d/gone", "gone", true)
	must(t, m.SyncDir("/d"))
	write(t, m, "/d/unnamed", "x", true)
	write(t, m, "/d/unsynced", "x", false)
	must(t, m.Remove("/d/gone"))
	f, err := m.OpenFile("/d/grown", vfs.ReadWrite)
	must(t, err)
	_, err = f.WriteAt([]byte(" and end"), 5)
	must(t, err)

	after := m.Crash(nil)
	for name, want := range map[string]string{"synced": "synced", "grown": "begin", "gone": "gone", "unnamed": "error", "unsynced": "error"} {
		if got := read(after, "/d/"+name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestCrashUndoesRenamesOfDirectories: a rename that was not synced is undone together with the directory's content,
// including what was synced there after the rename.
func TestCrashUndoesRenamesOfDirectories(t *testing.T) {
	for _, synced := range []bool{false, true} {
		m := vfs.NewMem(time.Now)
		must(t, m.MkdirAll("/d/old"))
		must(t, m.SyncDir("/"))
		must(t, m.SyncDir("/d"))
		write(t, m, "/d/old/f", "before", true)
		must(t, m.SyncDir("/d/old"))
		must(t, m.Rename("/d/old", "/d/new"))
		write(t, m, "/d/new/g", "after", true)
		must(t, m.SyncDir("/d/new"))
		is, not := "/d/old", "/d/new"
		if synced {
			must(t, m.SyncDir("/d"))
			is, not = not, is
		}
		after := m.Kill().Crash(nil)
		if f, g := read(after, is+"/f"), read(after, is+"/g"); f != "before" || g != "after" {
			t.Errorf("synced %v: %q and %q", synced, f, g)
		}
		if f := read(after, not+"/f"); f != "error" {
			t.Errorf("synced %v: %s/f is %q", synced, not, f)
		}
	}
}

// TestCrashMayKeepMore: some of what was not synced may be there, but only as it was written.
func TestCrashMayKeepMore(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		m := vfs.NewMem(time.Now)
		must(t, m.MkdirAll("/d"))
		must(t, m.SyncDir("/"))
		must(t, m.SyncDir("/d"))
		write(t, m, "/d/f", "ab", false)
		seen[read(m.Crash(rand.New(rand.NewPCG(seed, 0))), "/d/f")] = true
	}
	if want := map[string]bool{"error": true, "": true, "a": true, "ab": true}; !cmp.Equal(seen, want) {
		t.Errorf("after crashes: %v, want %v", seen, want)
	}
}

// Of what is overwritten, any part may be there.
func TestCrashMayKeepOverwritten(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		m := vfs.NewMem(time.Now)
		must(t, m.MkdirAll("/d"))
		must(t, m.SyncDir("/"))
		f, err := m.OpenFile("/d/f", vfs.ReadWrite|vfs.Create)
		must(t, err)
		for _, content := range []string{"old", "new"} {
			_, err = f.WriteAt([]byte(content), 0)
			must(t, err)
			if content == "old" {
				must(t, f.Sync())
				must(t, m.SyncDir("/d"))
			}
		}
		seen[read(m.Crash(rand.New(rand.NewPCG(seed, 0))), "/d/f")] = true
	}
	if want := map[string]bool{"old": true, "nld": true, "ned": true, "new": true, "olw": true, "oew": true}; !cmp.Equal(seen, want) {
		t.Errorf("after crashes: %v, want %v", seen, want)
	}
}

func TestKillKeepsAll(t *testing.T) {
	m := vfs.NewMem(time.Now)
	must(t, m.MkdirAll("/d"))
	write(t, m, "/d/f", "content", false)
	if _, err := m.Lock("/d/.lock"); err != nil {
		t.Fatal(err)
	}
	after := m.Kill()
	if got := read(after, "/d/f"); got != "content" {
		t.Errorf("file has %q", got)
	}
	if _, err := after.Lock("/d/.lock"); err != nil {
		t.Errorf("the dead process still has its lock: %v", err)
	}
}

func TestFault(t *testing.T) {
	m := vfs.NewMem(time.Now)
	must(t, m.MkdirAll("/d"))
	write(t, m, "/d/f", "content", true)
	errFault := errors.New("fault")
	m.SetFault(func(op, name string) error {
		if op == "rename" && name == "/d/f" {
			return errFault
		}
		return nil
	})
	if err := m.Rename("/d/f", "/d/g"); !errors.Is(err, errFault) {
		t.Errorf("rename: %v", err)
	}
	if got := read(m, "/d/f"); got != "content" {
		t.Errorf("file has %q", got)
	}
}
