// Package edition detects that a file has changed since it was last read. Keys, tickets and certificates are replaced
// while programs run, which read the new ones when they next need them.
package edition

import "os"

// Edition identifies the content that a file had at some time. The zero value belongs to no file and is never over.
type Edition struct {
	file string
	info os.FileInfo // nil: the file could not be examined
}

// Of returns the file's current edition. Take it before reading the file, so that a change in between is noticed later.
func Of(file string) Edition {
	info, err := os.Stat(file)
	if err != nil {
		info = nil
	}
	return Edition{file, info}
}

// Outdated reports whether the file has changed since. A file that cannot be examined counts as unchanged.
func (e Edition) Outdated() bool {
	if e.file == "" {
		return false
	}
	now := Of(e.file).info
	switch {
	case now == nil:
		return false
	case e.info == nil:
		return true
	}
	return !os.SameFile(now, e.info) || !now.ModTime().Equal(e.info.ModTime()) || now.Size() != e.info.Size()
}
