package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"barnabas/tools"
)

// runTool runs a tool with the streams of the process. The first signal ends it properly, a second one at once. The
// exit code after a signal is the one that shells expect.
func runTool(t tools.Tool, args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signal.Ignore(syscall.SIGPIPE) // the write fails instead, and the tool ends properly
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	var got atomic.Int32
	go func() {
		s, _ := (<-signals).(syscall.Signal)
		signal.Stop(signals)
		got.Store(int32(s))
		cancel()
	}()
	code := t.Run(ctx, &tools.Env{
		Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Properties: properties(os.Environ()), Settings: environmentSettings(os.Environ()),
		Terminal:    isTerminal(os.Stderr) && !isTerminal(os.Stdout),
		Interactive: isTerminal(os.Stdin),
	})
	if s := got.Load(); s != 0 {
		return 128 + int(s)
	}
	return code
}

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
