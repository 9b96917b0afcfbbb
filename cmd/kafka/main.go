// Command kafka is the single binary behind the launchers in bin: its first argument selects the command.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"barnabas/tools"
)

// command is one of the binary's commands.
type command struct {
	name    string
	summary string
	run     func(args []string) int
}

// commands returns the servers, then the tools, without the prefix kafka- of their names.
func commands() []command {
	list := []command{
		{"server-start", "run a broker", serverStart},
		{"zookeeper-server-start", "run the ZooKeeper server for development", zookeeperServerStart},
		{"completion", "print the completion script for bash or zsh", completion},
		{"run-class", "run the command for a class of Apache Kafka", runClass},
		{"healthcheck", "check whether a broker answers, for containers", healthcheck},
	}
	for _, t := range tools.All() {
		list = append(list, command{strings.TrimPrefix(t.Name, "kafka-"), t.Summary, func(args []string) int { return runTool(t, args) }})
	}
	return list
}

func main() { os.Exit(run(os.Args)) }

// run finds the command in the first argument, or in the name of the binary (kafka-topics).
func run(args []string) int {
	name := strings.TrimPrefix(filepath.Base(args[0]), "kafka-")
	rest := args[1:]
	if !slices.ContainsFunc(commands(), func(c command) bool { return c.name == name }) {
		if len(rest) == 0 {
			usage(os.Stderr)
			return 1
		}
		name, rest = strings.TrimPrefix(rest[0], "kafka-"), rest[1:]
	}
	for _, c := range commands() {
		if c.name == name {
			if h := hint(os.Environ()); h != "" && name != "healthcheck" {
				fmt.Fprintln(os.Stderr, h)
			}
			return c.run(rest)
		}
	}
	switch name {
	case "help", "--help", "-h":
		usage(os.Stdout)
		return 0
	case "version", "--version":
		fmt.Println(tools.Version)
		return 0
	}
	fmt.Fprintf(os.Stderr, "kafka: there is no command %q; 'kafka help' lists them\n", name)
	return 1
}

func usage(out *os.File) {
	fmt.Fprintln(out, "usage: kafka COMMAND [ARGUMENT ...]")
	for _, c := range commands() {
		fmt.Fprintf(out, "  %-28s %s\n", c.name, c.summary)
	}
}
