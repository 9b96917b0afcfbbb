package logstore

import (
	"math"
	"path/filepath"
	"slices"
	"strings"

	"barnabas/internal/vfs"
)

// cleanUp completes or undoes what a crash has interrupted, and records which files exist.
func (ld *loader) cleanUp() error {
	entries, err := ld.env.fs.ReadDir(ld.dir)
	if err != nil {
		return err
	}
	ld.names = make(map[string]bool, len(entries))
	for _, e := range entries {
		ld.names[e.Name()] = true
	}
	if err := ld.removeLeftovers(); err != nil {
		return err
	}
	if err := ld.completeSwaps(); err != nil {
		return err
	}
	return ld.collect()
}

// removeLeftovers removes deleted files and unfinished output of the cleaner. If that was the split of a segment, swap
// files at or above the smallest cleaned one belong to it and are removed too, durably before the cleaned ones: without
// those, a load after another crash would complete the swap with what is left of it.
func (ld *loader) removeLeftovers() error {
	unfinished := int64(math.MaxInt64)
	for name := range ld.names {
		if plain, ok := strings.CutSuffix(name, cleanedSuffix); ok {
			if base, ok := baseOf(plain); ok {
				unfinished = min(unfinished, base)
			}
		}
	}
	undone, err := ld.removeIf(func(name string) bool {
		plain, swap := strings.CutSuffix(name, swapSuffix)
		base, ok := baseOf(plain)
		return swap && ok && base >= unfinished
	})
	if err == nil && undone {
		err = ld.env.fs.SyncDir(ld.dir)
	}
	if err != nil {
		return err
	}
	_, err = ld.removeIf(func(name string) bool {
		return strings.HasSuffix(name, deletedSuffix) || strings.HasSuffix(name, cleanedSuffix)
	})
	return err
}

// removeIf removes the files with certain names, and reports whether there are any.
func (ld *loader) removeIf(stale func(name string) bool) (some bool, err error) {
	for name := range ld.names {
		if !stale(name) {
			continue
		}
		some = true
		if err := ld.remove(name); err != nil {
			return some, err
		}
	}
	return some, nil
}

func (ld *loader) remove(name string) error {
	delete(ld.names, name)
	return ignoreNotExist(ld.env.fs.Remove(filepath.Join(ld.dir, name)))
}

func (ld *loader) rename(from, to string) error {
	delete(ld.names, from)
	ld.names[to] = true
	return ld.env.fs.Rename(filepath.Join(ld.dir, from), filepath.Join(ld.dir, to))
}

// baseOf returns the base in the name of any of a segment's files.
func baseOf(name string) (int64, bool) {
	for _, suffix := range segmentSuffixes {
		if base, ok := parseFileName(name, suffix); ok {
			return base, true
		}
	}
	return 0, false
}

// completeSwaps replaces segments with the finished results of compactions: those within the range of a swap file.
func (ld *loader) completeSwaps() error {
	swaps := ld.swapFiles()
	if len(swaps) == 0 {
		return nil
	}
	for _, name := range swaps {
		if base, ok := parseFileName(name, logSuffix+swapSuffix); ok {
			if err := ld.removeReplaced(name, base); err != nil {
				return err
			}
		}
	}
	if err := ld.env.fs.SyncDir(ld.dir); err != nil { // otherwise a power failure may bring back a removed segment beside the new one
		return err
	}
	for _, name := range swaps {
		if err := ld.rename(name, strings.TrimSuffix(name, swapSuffix)); err != nil {
			return err
		}
	}
	return ld.env.fs.SyncDir(ld.dir)
}

func (ld *loader) swapFiles() []string {
	var swaps []string
	for name := range ld.names {
		if strings.HasSuffix(name, swapSuffix) {
			swaps = append(swaps, name)
		}
	}
	slices.Sort(swaps)
	return swaps
}

// removeReplaced removes the files that those of a swap file's segment replace, except the ones that a rename will
// replace anyway.
func (ld *loader) removeReplaced(swap string, base int64) error {
	end, err := ld.swapEnd(swap, base)
	if err != nil {
		return err
	}
	for name := range ld.names {
		if b, ok := baseOf(name); ok && (b == base || b > base && b < end) && !ld.names[name+swapSuffix] {
			if err := ld.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// swapEnd returns the offset after the last record of a swap file.
func (ld *loader) swapEnd(name string, base int64) (int64, error) {
	f, err := ld.env.fs.OpenFile(filepath.Join(ld.dir, name), vfs.ReadOnly)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	end := base
	w := batchWalk{file: f, size: size}
	for w.next() {
		end = w.batch.LastOffset() + 1
	}
	return end, w.err
}

// collect records segments and snapshots, and removes indexes without a segment file.
func (ld *loader) collect() error {
	for name := range ld.names {
		if base, ok := parseFileName(name, logSuffix); ok {
			ld.bases = append(ld.bases, base)
		}
		if offset, ok := parseFileName(name, snapshotSuffix); ok {
			ld.snapshots = append(ld.snapshots, offset)
		}
	}
	slices.Sort(ld.bases)
	slices.Sort(ld.snapshots)
	for name := range ld.names {
		if base, ok := baseOf(name); ok && !ld.names[fileName(base, logSuffix)] {
			if err := ld.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}
