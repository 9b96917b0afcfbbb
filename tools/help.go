package tools

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// Option is an option of a tool.
type Option struct {
	Name  string // without dashes
	Short string // one letter, or empty
	Value string // kind of value, empty for a switch
	Usage string
}

// Options lists a tool's options, sorted by name. For a tool without options it returns none.
func (t Tool) Options() []Option {
	var all []Option
	env := &Env{Args: []string{"--help"}, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
	env.inspect = func(o *options) { all = o.list() }
	_ = t.run(context.Background(), env) // ends where it would print its help
	return all
}

func (o *options) list() []Option {
	var all []Option
	o.VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		if f.Value.Type() == "bool" {
			value = ""
		}
		all = append(all, Option{f.Name, f.Shorthand, value, usage + defaultOf(f)})
	})
	return all
}

// defaultOf returns what an option's help says about its default, if anything.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "[]", "0":
		return ""
	}
	return fmt.Sprintf(" (default %s)", f.DefValue)
}

const helpWidth = 100

// usage prints a page in the style of a manual to standard error, and the tool exits with code 1, as in the originals.
func (o *options) usage(env *Env) {
	if env.inspect != nil {
		env.inspect(o)
		return
	}
	w := env.Stderr
	first, rest, _ := strings.Cut(o.about, "\n")
	fmt.Fprintf(w, "NAME\n%s\nSYNOPSIS\n%s\n", indented("    ", o.name+" - "+strings.TrimSuffix(first, ".")), indented("    ", strings.Join(strings.Fields(o.name+" "+o.operands+" OPTION ..."), " ")))
	if rest != "" {
		fmt.Fprintf(w, "DESCRIPTION\n%s\n", indented("    ", rest))
	}
	fmt.Fprintln(w, "OPTIONS")
	for _, opt := range o.list() {
		name := "--" + opt.Name
		if len(opt.Name) == 1 {
			name = "-" + opt.Name
		} else if opt.Short != "" {
			name = "-" + opt.Short + ", " + name
		}
		if opt.Value != "" {
			name += " " + opt.Value
		}
		fmt.Fprintf(w, "    %s\n%s", name, indented("        ", opt.Usage))
	}
	fmt.Fprintf(w, "\nEXIT STATUS\n%s", indented("    ", cmp.Or(o.exits, "0 on success, 1 if something failed or the options are wrong.")))
}

// indented wraps a text so that no line is longer than helpWidth, and indents each line.
func indented(indent, text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		width := 0
		for _, word := range strings.Fields(line) {
			switch {
			case width == 0:
				b.WriteString(indent)
				width = len(indent)
			case width+1+len(word) > helpWidth:
				b.WriteString("\n" + indent)
				width = len(indent)
			default:
				b.WriteByte(' ')
				width++
			}
			b.WriteString(word)
			width += len(word)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
