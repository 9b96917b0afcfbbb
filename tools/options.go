package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Version is the release whose tools these replace; scripts read it from --version.
const Version = "3.9.2"

// options is a tool's command line. Values are typed by pflag; the syntax is that of Apache Kafka's tools (joptsimple):
// --name value, --name=value, also with a single dash, and options between and after arguments.
type options struct {
	*pflag.FlagSet
	name     string
	about    string
	operands string          // arguments that are not options, for the synopsis
	exits    string          // the meaning of exit codes; empty: as usual
	optional map[string]bool // their value may be missing
	variadic map[string]bool // several values may follow
	args     []string        // what is not an option
	given    map[string]int
}

func newOptions(name, about string) *options {
	o := &options{FlagSet: pflag.NewFlagSet(name, pflag.ContinueOnError), name: name, about: about,
		optional: make(map[string]bool), variadic: make(map[string]bool), given: make(map[string]int)}
	o.Bool("help", false, "print this text")
	o.Bool("version", false, "print the version")
	return o
}

// client defines the two options of every tool that connects to brokers. config is the name of the one for a properties
// file.
func (o *options) client(config string) (bootstrap, file *string) {
	return o.String("bootstrap-server", "", "brokers to connect to, `host:port,...` (required)"),
		o.String(config, "", "`file` of client properties")
}

// valueOptional allows an option without a value, which then has the given one.
func (o *options) valueOptional(name, missing string) {
	o.optional[name] = true
	if missing != "" {
		o.Lookup(name).Usage += fmt.Sprintf(" (%s if the value is omitted)", missing)
	}
	o.Lookup(name).NoOptDefVal = missing
}

// has reports whether an option was given.
func (o *options) has(name string) bool { return o.given[name] > 0 }

// parse parses the command line. It handles help, version and an empty command line: the error is an exitCode then.
func (o *options) parse(env *Env) error {
	if len(env.Args) == 0 {
		o.usage(env)
		return exitCode(1)
	}
	if err := o.read(env.Args); err != nil {
		return err
	}
	switch {
	case o.has("help"):
		o.usage(env)
		return exitCode(1) // as in the originals
	case o.has("version"):
		env.println(Version)
		return exitCode(0)
	}
	return nil
}

func (o *options) read(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			o.args = append(o.args, args...)
			return nil
		}
		name, isOption := strings.CutPrefix(arg, "-")
		if !isOption || name == "" {
			o.args = append(o.args, arg)
			continue
		}
		var err error
		if args, err = o.option(strings.TrimPrefix(name, "-"), args); err != nil {
			return err
		}
	}
	return nil
}

// option handles one option, and takes its value from args if it is there.
func (o *options) option(name string, args []string) (rest []string, err error) {
	name, value, hasValue := strings.Cut(name, "=")
	f := o.Lookup(name)
	if f == nil && len(name) == 1 {
		f = o.ShorthandLookup(name)
	}
	if f == nil {
		return nil, usagef("%s is not a recognized option", name)
	}
	o.given[f.Name]++
	switch {
	case f.Value.Type() == "bool":
		if hasValue && value != "true" { // the originals take --delete=false for --delete
			return nil, usagef("option %s has no argument, leave it out instead of '%s'", name, value)
		}
		value = "true"
	case hasValue:
	case o.optional[f.Name] && (len(args) == 0 || strings.HasPrefix(args[0], "-")):
		value = f.NoOptDefVal
	case len(args) == 0:
		return nil, usagef("option %s requires an argument", name)
	default:
		value, args = args[0], args[1:]
	}
	if o.given[f.Name] > 1 && f.Value.Type() != "stringArray" && f.Value.Type() != "bool" {
		return nil, usagef("found multiple arguments for option %s, but it takes only one", name)
	}
	for {
		if err := o.Set(f.Name, value); err != nil {
			return nil, usagef("cannot parse argument '%s' of option %s", value, name)
		}
		if !o.variadic[f.Name] || len(args) == 0 || strings.HasPrefix(args[0], "-") {
			return args, nil
		}
		value, args = args[0], args[1:]
	}
}

// require reports the first of the options that is missing.
func (o *options) require(names ...string) error {
	for _, name := range names {
		if !o.has(name) {
			return usagef("missing required argument %q", name)
		}
	}
	return nil
}

// exclude reports the first of others that was given together with option.
func (o *options) exclude(option string, others ...string) error {
	for _, other := range others {
		if other != option && o.has(option) && o.has(other) {
			return usagef("option %q can't be used with option %q", option, other)
		}
	}
	return nil
}

// optionActions is an option that only some actions accept.
type optionActions struct {
	option  string
	actions string // separated by blanks
}

// checkActions refuses options that the action does not accept.
func (o *options) checkActions(action string, limited []optionActions) error {
	for _, l := range limited {
		if o.has(l.option) && !slices.Contains(strings.Fields(l.actions), action) {
			return usagef("option %q can't be used with option %q", l.option, action)
		}
	}
	return nil
}

// exactlyOne returns the one of several options that was given.
func (o *options) exactlyOne(names ...string) (string, error) {
	given := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !o.has(n) })
	if len(given) != 1 {
		return "", usagef("command must include exactly one action: --%s", strings.Join(names, ", --"))
	}
	return given[0], nil
}

// splitList splits a list at commas; an empty text is an empty list.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// keyValues parses a list of key=value; a key without "=" is an error.
func keyValues(list []string) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usagef("invalid property %q: it must be key=value", kv)
		}
		m[strings.TrimSpace(k)] = strings.TrimSpace(v)
	}
	return m, nil
}

// propertyArgs parses the values of an option such as --property, each name=value or a name, whose value is empty then.
// Values keep their blanks, which may be separators.
func propertyArgs(list []string) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, text := range list {
		name, value, _ := strings.Cut(text, "=")
		if name == "" {
			return nil, usagef("invalid property %q: it must be name=value", text)
		}
		m[name] = value
	}
	return m, nil
}
