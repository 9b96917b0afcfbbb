package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"barnabas/tools"
)

// zshPrelude makes zsh read completions written for bash. That requires its own completion system, which not every
// .zshrc initializes.
const zshPrelude = `(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i -D; }
autoload -Uz bashcompinit && bashcompinit
`

// completion prints the shell code that completes the options of the tools.
func completion(args []string) int {
	if len(args) != 1 || args[0] != "bash" && args[0] != "zsh" {
		fmt.Fprintln(os.Stderr, "usage: kafka completion bash|zsh")
		return 1
	}
	var script strings.Builder
	writeCompletion(&script, args[0])
	if _, err := os.Stdout.WriteString(script.String()); err != nil { // half a script would break the shell
		fmt.Fprintf(os.Stderr, "kafka completion: %v\n", err)
		return 1
	}
	return 0
}

// serverOptions are the options of the commands that are not tools.
var serverOptions = []struct{ name, options string }{
	{"kafka-server-start", "-daemon --override --env --version --help"},
	{"zookeeper-server-start", "-daemon --version --help"},
}

// writeCompletion writes a function that knows each tool's options, and registers it. Words that do not begin an option
// are completed as file names.
func writeCompletion(w io.Writer, shell string) {
	if shell == "zsh" {
		io.WriteString(w, zshPrelude)
	}
	io.WriteString(w, "_barnabas() {\n  local word=\"${COMP_WORDS[COMP_CWORD]}\" name=\"${COMP_WORDS[0]##*/}\" options=\n"+
		"  COMPREPLY=()\n  case \"${name%.sh}\" in\n")
	var names []string
	add := func(name, options string) {
		fmt.Fprintf(w, "  %s) options=\"%s\" ;;\n", name, options)
		names = append(names, name, name+".sh")
	}
	for _, s := range serverOptions {
		add(s.name, s.options)
	}
	for _, t := range tools.All() {
		var options []string
		for _, o := range t.Options() {
			if len(o.Name) > 1 {
				options = append(options, "--"+o.Name)
			}
		}
		add(t.Name, strings.Join(options, " "))
	}
	io.WriteString(w, "  esac\n  if [ \"${word#-}\" != \"$word\" ]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\")); fi\n}\n")
	fmt.Fprintf(w, "complete -o default -F _barnabas %s\n", strings.Join(names, " "))
}
