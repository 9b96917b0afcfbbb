package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"barnabas/tools"
)

// runTool gives a tool the streams of the process. The first signal ends it in an orderly way, a second one at once.
func runTool(t tools.Tool, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return t.Run(ctx, &tools.Env{
		Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal:    isTerminal(os.Stderr) && !isTerminal(os.Stdout),
		Interactive: isTerminal(os.Stdin),
	})
}

// isTerminal tells whether a person is at the other end of a file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
