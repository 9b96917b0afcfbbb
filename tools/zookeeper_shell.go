package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"barnabas/zkcoord"

	"github.com/go-zookeeper/zk"
)

// zkTimeout is the session's timeout, and the time limit for the first connection.
const zkTimeout = 30 * time.Second

func zookeeperShell(ctx context.Context, env *Env) error {
	args := env.Args
	if len(args) > 0 && args[0] == "-server" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] == "--help" {
		env.println("usage: zookeeper-shell HOST:PORT[/CHROOT] [-zk-tls-config-file FILE] [COMMAND [ARGUMENT ...]]")
		env.println("Without a command, commands are read from standard input; help lists them.")
		return exitCode(1)
	}
	if args[0] == "--version" {
		env.println(Version)
		return nil
	}
	server, command := args[0], args[1:]
	var settings string
	if len(command) > 0 && command[0] == "-zk-tls-config-file" {
		if len(command) < 2 {
			return usagef("-zk-tls-config-file needs the name of a file")
		}
		settings, command = command[1], command[2:]
	}
	access, err := zooKeeperAccess(env, settings)
	if err != nil {
		return err
	}
	s, err := dialZooKeeper(ctx, env, server, access)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	switch {
	case len(command) == 0:
		return s.interact(env.Stdin)
	case ends(command):
		return nil
	}
	return s.run(command)
}

// zkShell runs commands in one session.
type zkShell struct {
	env    *Env
	conn   *zk.Conn
	chroot string

	printing sync.Mutex // held while a command runs or an event is printed
	silent   bool       // events are not printed; guarded by printing
}

type silentLogger struct{}

// Printf implements zk.Logger.
func (silentLogger) Printf(string, ...any) {}

func dialZooKeeper(ctx context.Context, env *Env, server string, access zkAccess) (*zkShell, error) {
	env.printf("Connecting to %s\n", server)
	servers, chroot, err := zkcoord.SplitConnect(server)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", server, err)
	}
	hosts, way := strings.Join(servers, ","), newZKDialer(access)
	way.patience = zkcoord.Patience(access.session, len(servers))
	conn, events, err := zk.Connect(servers, access.session, zk.WithLogger(silentLogger{}), zk.WithDialer(way.dial),
		zk.WithHostProvider(zkcoord.NewHostProvider()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, access.connect, fmt.Errorf("no answer within %v", access.connect))
	defer cancel()
	late := time.After(time.Second)
	for {
		select {
		case <-late:
			env.errorf("waiting%s for ZooKeeper to answer at %s", upTo(ctx), hosts)
		case e := <-events:
			if e.State == zk.StateHasSession {
				env.printf("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n")
				return &zkShell{env: env, conn: conn, chroot: chroot}, nil
			}
		case err := <-way.refused:
			conn.Close()
			return nil, err
		case <-ctx.Done():
			conn.Close()
			return nil, fmt.Errorf("no connection to ZooKeeper at %s: %w", hosts, context.Cause(ctx))
		}
	}
}

// interact runs the commands of a stream, one per line, also after errors, which it reports. It returns the exit code of
// the last command, as the original does.
func (s *zkShell) interact(in io.Reader) error {
	defer s.silence()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4<<20)
	var last error
	for {
		if err := s.prompt(); err != nil {
			return err
		}
		if !lines.Scan() {
			if err := lines.Err(); err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
			return last
		}
		words, err := shellWords(lines.Text())
		if err == nil && len(words) > 0 {
			if ends(words) {
				return last
			}
			s.printing.Lock()
			err = s.run(words)
			s.printing.Unlock()
			last = nil
		}
		if err != nil {
			last = s.report(err)
		}
	}
}

// prompt shows what was printed so far.
func (s *zkShell) prompt() error {
	s.printing.Lock()
	defer s.printing.Unlock()
	if err := s.env.flush(); err != nil {
		return err
	}
	if s.env.Interactive {
		fmt.Fprint(s.env.Stderr, "> ")
	}
	return nil
}

// silence ends the printing of events.
func (s *zkShell) silence() {
	s.printing.Lock()
	defer s.printing.Unlock()
	s.silent = true
}

// follow prints the event of a watch, once there is one.
func (s *zkShell) follow(events <-chan zk.Event) {
	go func() {
		e, ok := <-events
		s.printing.Lock()
		defer s.printing.Unlock()
		if !ok || e.Type == zk.EventNotWatching || s.silent { // the session has ended
			return
		}
		path := strings.TrimPrefix(e.Path, s.chroot)
		if path == "" {
			path = "/"
		}
		s.env.printf("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:%s path:%s\n", strings.TrimPrefix(e.Type.String(), "Event"), path)
		_ = s.env.flush()
	}()
}

func ends(words []string) bool { return words[0] == "quit" || words[0] == "close" }

// report prints an error unless that has been done, and returns the exit code.
func (s *zkShell) report(err error) error {
	var code exitCode
	if errors.As(err, &code) {
		return code
	}
	s.env.errorf("%v", err)
	return exitCode(1)
}

// shellWords splits a line at blanks, except within quotes.
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("quotation mark %c is not closed", quote)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// zkCommand is a command of the shell. letters are its options without a value, values those with one.
type zkCommand struct {
	name, usage     string
	letters, values string
	least, most     int // number of arguments
	run             func(s *zkShell, a zkArgs) error
}

// zkArgs are a command's options and arguments.
type zkArgs struct {
	options map[byte]string
	args    []string
}

func (a zkArgs) has(letter byte) bool { _, ok := a.options[letter]; return ok }

// version returns the value of -v, -1 for any version.
func (a zkArgs) version() (int32, error) {
	v, ok := a.options['v']
	if !ok {
		return -1, nil
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return 0, usagef("%s is not a version", v)
	}
	return int32(n), nil
}

func zkCommands() []zkCommand {
	return []zkCommand{
		{"ls", "ls [-s] [-w] [-R] path", "sRw", "", 1, 1, (*zkShell).list},
		{"get", "get [-s] [-w] path", "sw", "", 1, 1, (*zkShell).get},
		{"stat", "stat [-w] path", "w", "", 1, 1, (*zkShell).stat},
		{"create", "create [-s] [-e] [-c] path [data]", "sec", "", 1, 3, (*zkShell).create},
		{"set", "set [-s] [-v version] path data", "s", "v", 2, 2, (*zkShell).set},
		{"delete", "delete [-v version] path", "", "v", 1, 1, (*zkShell).delete},
		{"deleteall", "deleteall path", "", "", 1, 1, (*zkShell).deleteAll},
		{"getAcl", "getAcl [-s] path", "s", "", 1, 1, (*zkShell).getACL},
		{"setAcl", "setAcl [-s] [-v version] [-R] path acl", "sR", "v", 2, 2, (*zkShell).setACL},
		{"getAllChildrenNumber", "getAllChildrenNumber path", "", "", 1, 1, (*zkShell).countDescendants},
		{"sync", "sync path", "", "", 1, 1, (*zkShell).sync},
		{"addauth", "addauth scheme auth", "", "", 2, 2, (*zkShell).addAuth},
		{"config", "config [-s] [-w]", "sw", "", 0, 0, (*zkShell).config},
		{"printwatches", "printwatches on|off", "", "", 0, 1, (*zkShell).printWatches},
		{"version", "version", "", "", 0, 0, (*zkShell).version},
		{"help", "help", "", "", 0, 0, (*zkShell).help},
	}
}

// run runs one command. If it was used incorrectly, the error shows its usage.
func (s *zkShell) run(words []string) error {
	for _, c := range zkCommands() {
		if c.name != words[0] {
			continue
		}
		a, ok := c.parse(words[1:])
		if !ok {
			return usageError("usage: " + c.usage)
		}
		if err := c.run(s, a); err != nil {
			return s.name(err, a)
		}
		return nil
	}
	s.env.errorf("unknown command %s", words[0])
	for _, c := range zkCommands() {
		s.env.errorf("\t%s", c.usage)
	}
	return exitCode(127)
}

func (c *zkCommand) parse(words []string) (zkArgs, bool) {
	a := zkArgs{options: make(map[byte]string)}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		switch {
		case len(word) != 2 || word[0] != '-' || len(a.args) > 0 && c.values == "" && c.letters == "":
			a.args = append(a.args, word)
		case strings.IndexByte(c.letters, word[1]) >= 0:
			a.options[word[1]] = ""
		case strings.IndexByte(c.values, word[1]) >= 0 && len(words) > 0:
			a.options[word[1]] = words[0]
			words = words[1:]
		default:
			return a, false
		}
	}
	return a, len(a.args) >= c.least && len(a.args) <= c.most
}

// path returns the path of an argument on the server.
func (s *zkShell) path(arg string) string {
	if s.chroot != "" && arg == "/" {
		return s.chroot
	}
	return s.chroot + arg
}

// zkTexts describe errors of nodes.
var zkTexts = []struct {
	err  error
	text string
}{
	{zk.ErrNoNode, "Node does not exist: "}, {zk.ErrNodeExists, "Node already exists: "}, {zk.ErrNotEmpty, "Node not empty: "},
	{zk.ErrBadVersion, "the version is not that of the node: "}, {zk.ErrNoAuth, "Insufficient permission: "},
	{zk.ErrNoChildrenForEphemerals, "Ephemerals cannot have children: "}, {zk.ErrInvalidPath, "the path is not valid: "},
}

// name adds the node to an error.
func (s *zkShell) name(err error, a zkArgs) error {
	for _, t := range zkTexts {
		if errors.Is(err, t.err) && len(a.args) > 0 {
			return fmt.Errorf("%s%s", t.text, a.args[0])
		}
	}
	return err
}

// list prints a node's children. With -w, the shell prints an event when they change; with -R, those of all descendants.
func (s *zkShell) list(a zkArgs) error {
	if a.has('R') {
		return s.tree(a.args[0], a.has('w'))
	}
	children, stat, err := s.children(a.args[0], a.has('w'))
	if err != nil {
		return err
	}
	slices.Sort(children)
	s.env.printf("[%s]\n", strings.Join(children, ", "))
	if a.has('s') {
		s.printStat(stat)
	}
	return nil
}

// tree prints a node and its descendants. Nodes that disappear meanwhile are left out.
func (s *zkShell) tree(path string, watch bool) error {
	children, _, err := s.children(path, watch)
	if err != nil {
		return err
	}
	s.env.println(path)
	slices.Sort(children)
	for _, child := range children {
		if err := s.tree(strings.TrimSuffix(path, "/")+"/"+child, watch); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

func (s *zkShell) children(path string, watch bool) ([]string, *zk.Stat, error) {
	if !watch {
		return s.conn.Children(s.path(path))
	}
	names, stat, events, err := s.conn.ChildrenW(s.path(path))
	if err == nil {
		s.follow(events)
	}
	return names, stat, err
}

func (s *zkShell) get(a zkArgs) error { return s.show(s.path(a.args[0]), a) }

// config prints the ensemble's members, as far as the server tells them.
func (s *zkShell) config(a zkArgs) error { return s.show("/zookeeper/config", a) }

// show prints a node's data. With -w, the shell prints an event when they change.
func (s *zkShell) show(path string, a zkArgs) error {
	data, stat, err := s.data(path, a.has('w'))
	if err != nil {
		return err
	}
	if data == nil {
		s.env.println("null")
	} else {
		s.env.printf("%s\n", data)
	}
	if a.has('s') {
		s.printStat(stat)
	}
	return nil
}

func (s *zkShell) data(path string, watch bool) ([]byte, *zk.Stat, error) {
	if !watch {
		return s.conn.Get(path)
	}
	data, stat, events, err := s.conn.GetW(path)
	if err == nil {
		s.follow(events)
	}
	return data, stat, err
}

// stat prints a node's attributes. With -w, the shell prints an event when the node is changed, deleted or created.
func (s *zkShell) stat(a zkArgs) error {
	found, stat, err := s.exists(s.path(a.args[0]), a.has('w'))
	switch {
	case err != nil:
		return err
	case !found:
		return zk.ErrNoNode
	}
	s.printStat(stat)
	return nil
}

func (s *zkShell) exists(path string, watch bool) (bool, *zk.Stat, error) {
	if !watch {
		return s.conn.Exists(path)
	}
	found, stat, events, err := s.conn.ExistsW(path)
	if err == nil {
		s.follow(events)
	}
	return found, stat, err
}

func (s *zkShell) create(a zkArgs) error {
	var data []byte
	if len(a.args) > 1 {
		data = []byte(a.args[1])
	}
	acl := zk.WorldACL(zk.PermAll)
	if len(a.args) > 2 {
		var err error
		if acl, err = parseACL(a.args[2]); err != nil {
			return err
		}
	}
	create := s.conn.Create
	var flags int32
	if a.has('e') {
		flags |= zk.FlagEphemeral
	}
	if a.has('s') {
		flags |= zk.FlagSequence
	}
	if a.has('c') {
		create, flags = s.conn.CreateContainer, zk.FlagContainer
	}
	path, err := create(s.path(a.args[0]), data, flags, acl)
	if err != nil {
		return err
	}
	s.env.errorf("Created %s", strings.TrimPrefix(path, s.chroot))
	return nil
}

// parseACL parses scheme:id:perms,...; the id may contain colons.
func parseACL(text string) ([]zk.ACL, error) {
	var all []zk.ACL
	for entry := range strings.SplitSeq(text, ",") {
		scheme, rest, ok := strings.Cut(entry, ":")
		at := strings.LastIndexByte(rest, ':')
		if !ok || at < 0 {
			return nil, usagef("%s is not of the form scheme:id:perms", entry)
		}
		acl := zk.ACL{Scheme: scheme, ID: rest[:at]}
		for _, c := range rest[at+1:] {
			i := strings.IndexRune(permLetters, c)
			if i < 0 {
				return nil, usagef("unknown permission %c in %s", c, entry)
			}
			acl.Perms |= permBits[i]
		}
		all = append(all, acl)
	}
	return all, nil
}

// permLetters are the permissions in the order in which they are printed.
const permLetters = "cdrwa"

var permBits = []int32{zk.PermCreate, zk.PermDelete, zk.PermRead, zk.PermWrite, zk.PermAdmin}

func (s *zkShell) set(a zkArgs) error {
	version, err := a.version()
	if err != nil {
		return err
	}
	stat, err := s.conn.Set(s.path(a.args[0]), []byte(a.args[1]), version)
	if err == nil && a.has('s') {
		s.printStat(stat)
	}
	return err
}

func (s *zkShell) delete(a zkArgs) error {
	version, err := a.version()
	if err != nil {
		return err
	}
	return s.conn.Delete(s.path(a.args[0]), version)
}

func (s *zkShell) deleteAll(a zkArgs) error {
	if a.args[0] == "/" {
		return usagef("the root cannot be deleted")
	}
	return s.walk(s.path(a.args[0]), func(path string) error { return s.conn.Delete(path, -1) })
}

func (s *zkShell) getACL(a zkArgs) error {
	acls, stat, err := s.conn.GetACL(s.path(a.args[0]))
	if err != nil {
		return err
	}
	for _, acl := range acls {
		perms := ""
		for i, c := range permLetters {
			if acl.Perms&permBits[i] != 0 {
				perms += string(c)
			}
		}
		s.env.printf("'%s,'%s\n: %s\n", acl.Scheme, acl.ID, perms)
	}
	if a.has('s') {
		s.printStat(stat)
	}
	return nil
}

// setACL replaces the ACL of a node and, with -R, of its descendants.
func (s *zkShell) setACL(a zkArgs) error {
	acl, err := parseACL(a.args[1])
	if err != nil {
		return err
	}
	version, err := a.version()
	if err != nil {
		return err
	}
	if a.has('R') {
		return s.walk(s.path(a.args[0]), func(path string) error {
			_, err := s.conn.SetACL(path, acl, version)
			return err
		})
	}
	stat, err := s.conn.SetACL(s.path(a.args[0]), acl, version)
	if err == nil && a.has('s') {
		s.printStat(stat)
	}
	return err
}

func (s *zkShell) countDescendants(a zkArgs) error {
	count := -1 // without the node itself
	err := s.walk(s.path(a.args[0]), func(string) error {
		count++
		return nil
	})
	if err == nil {
		s.env.println(count)
	}
	return err
}

// walk visits a node and its descendants, parents after their children: an ACL may take away the right to list these.
// Nodes that disappear meanwhile are left out.
func (s *zkShell) walk(path string, visit func(path string) error) error {
	children, _, err := s.conn.Children(path)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := s.walk(strings.TrimSuffix(path, "/")+"/"+child, visit); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return visit(path)
}

func (s *zkShell) sync(a zkArgs) error {
	_, err := s.conn.Sync(s.path(a.args[0]))
	if err == nil {
		s.env.println("Sync is OK")
	}
	return err
}

func (s *zkShell) addAuth(a zkArgs) error { return s.conn.AddAuth(a.args[0], []byte(a.args[1])) }

// printWatches says whether events are printed, or changes that.
func (s *zkShell) printWatches(a zkArgs) error {
	if len(a.args) == 0 {
		state := "on"
		if s.silent {
			state = "off"
		}
		s.env.printf("printwatches is %s\n", state)
		return nil
	}
	s.silent = a.args[0] != "on"
	return nil
}

func (s *zkShell) version(zkArgs) error {
	s.env.println(Version)
	return nil
}

func (s *zkShell) help(zkArgs) error {
	for _, c := range zkCommands() {
		s.env.println(c.usage)
	}
	s.env.println("quit")
	return nil
}

func (s *zkShell) printStat(t *zk.Stat) {
	at := func(ms int64) string { return time.UnixMilli(ms).Format("Mon Jan 02 15:04:05 MST 2006") }
	s.env.printf("cZxid = 0x%x\nctime = %s\nmZxid = 0x%x\nmtime = %s\npZxid = 0x%x\ncversion = %d\ndataVersion = %d\naclVersion = %d\n"+
		"ephemeralOwner = 0x%x\ndataLength = %d\nnumChildren = %d\n", t.Czxid, at(t.Ctime), t.Mzxid, at(t.Mtime), t.Pzxid, t.Cversion,
		t.Version, t.Aversion, t.EphemeralOwner, t.DataLength, t.NumChildren)
}
