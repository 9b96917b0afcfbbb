package kerberos

import (
	"fmt"
	"os"
	"time"
)

// read has the library read a file. It takes for granted that a file is whole, which one that is being written is not.
func read[T any](file string, by func(string) (T, error)) (content T, err error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			err = fmt.Errorf("%s is not of the form that it must have, or is cut short", file)
		}
	}()
	return by(file)
}

// edition tells the contents of a file apart that it has one after the other: keys are given anew and tickets renewed while
// programs run, which read them when they need them next, as Java does.
type edition struct {
	modified time.Time
	size     int64
}

// editionOf is a file's present one; not ok: it cannot be read.
func editionOf(file string) (e edition, ok bool) {
	info, err := os.Stat(file)
	if err != nil {
		return e, false
	}
	return edition{info.ModTime(), info.Size()}, true
}
