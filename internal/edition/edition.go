// Package edition tells apart what a file contains at one time and at another: keys, tickets and certificates are given anew while
// programs run, which read them when they need them next.
package edition

import "os"

// Edition is what a file contained at some time. That of no file, the zero value, is never over.
type Edition struct {
	file string
	info os.FileInfo // nil: it could not be read
}

// Of is a file's present one. It is taken before the file is read: a change meanwhile is found later.
func Of(file string) Edition {
	info, err := os.Stat(file)
	if err != nil {
		info = nil
	}
	return Edition{file, info}
}

// Over tells whether the file contains something else now. One that cannot be looked at tells nothing new.
func (e Edition) Over() bool {
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
