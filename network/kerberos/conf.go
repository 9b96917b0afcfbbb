package kerberos

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"
)

// conf is the content of a krb5.conf as far as it matters here.
//
// The library's parser stops at whatever it does not know: values of settings that nothing uses, such as
// dns_canonicalize_hostname=fallback in the file of Fedora, and blocks within blocks. It ignores include and
// includedir, and all but the last of several sections [realms]. It therefore gets a file with only what is used.
type conf struct {
	defaults []string            // lines of [libdefaults]
	kdcs     map[string][]string // by realm
	domains  []string            // lines of [domain_realm]
	set      map[string]string   // of defaults: the values, by key
	files    int                 // that were read
}

// maxFiles bounds the files that a configuration includes, which may include each other.
const maxFiles = 1000

// loadConf reads a configuration for the library.
func loadConf(from Source) (*config.Config, error) {
	if (from.Realm == "") != (from.KDC == "") {
		return nil, errors.New("java.security.krb5.realm and java.security.krb5.kdc must both be set, or neither")
	}
	c := &conf{kdcs: make(map[string][]string), set: make(map[string]string)}
	if err := c.read(from.File); err != nil && !(from.Realm != "" && missing(from.File)) {
		return nil, err
	}
	if from.Realm != "" {
		c.setting(place{section: "libdefaults"}, "default_realm", from.Realm)
		c.kdcs[from.Realm] = centersIn(strings.ReplaceAll(from.KDC, ":", " "))
	}
	parsed, err := config.NewFromString(c.text())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from.File, err)
	}
	return parsed, nil
}

func missing(file string) bool {
	_, err := os.Stat(file)
	return errors.Is(err, fs.ErrNotExist)
}

// read adds the content of a file, and of those that it includes.
func (c *conf) read(file string) error {
	if c.files++; c.files > maxFiles {
		return fmt.Errorf("%s: more than %d files are included", file, maxFiles)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	at := place{file: file}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		line, _, _ = strings.Cut(line, ";")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := c.line(&at, line); err != nil {
			return err
		}
	}
	return nil
}

// place is where a line stands.
type place struct {
	file    string
	section string
	block   string // the name of the outermost block
	depth   int    // of blocks
	named   string // in the line before, which had no value: the name of a block that begins in this one
}

// line reads a line. A block's name and its "{" are in one line, or each begins one; other settings are never beside
// it. So both Java and MIT's library take a realm that is written in one line, R = { kdc = host }, for a setting, and
// the realm for one without centers.
func (c *conf) line(at *place, line string) error {
	words := strings.Fields(line)
	key, value, isSetting := strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), unquoted(strings.TrimSpace(value))
	named := at.named
	if at.named = ""; isSetting && value == "" {
		at.named = key
	}
	switch {
	case at.depth == 0 && line[0] == '[':
		name, _, _ := strings.Cut(line[1:], "]")
		at.section = strings.ToLower(strings.TrimSpace(name))
	case at.depth == 0 && len(words) == 2 && words[0] == "include":
		return c.read(words[1])
	case at.depth == 0 && len(words) == 2 && words[0] == "includedir":
		return c.readAll(words[1])
	case line[0] == '{':
		at.enter(named)
		if line = strings.TrimSpace(line[1:]); line != "" { // as in Java
			return c.line(at, line)
		}
	case strings.HasSuffix(line, "{"):
		at.enter(key)
	case strings.HasPrefix(line, "}"):
		at.depth = max(0, at.depth-1)
	case isSetting:
		c.setting(*at, key, value)
	case at.depth == 0 && (at.section == "libdefaults" || at.section == "domain_realm"):
		return fmt.Errorf("%s: in section [%s], %q is not of the form key = value", at.file, at.section, line)
	}
	return nil
}

// enter begins a block.
func (at *place) enter(block string) {
	if at.depth++; at.depth == 1 {
		at.block = block
	}
}

// unquoted returns a value without the quotes around it, as Java does.
func unquoted(value string) string {
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return strings.TrimSpace(value[1 : n-1])
	}
	return value
}

// included matches the names of the files that includedir reads, as in MIT's library: those of editors and package
// managers are not among them.
var included = regexp.MustCompile(`^([A-Za-z0-9_-]+|[^.].*\.conf)$`)

// readAll reads the files of a directory. One that does not exist has none.
func (c *conf) readAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !included.MatchString(e.Name()) {
			continue
		}
		if err := c.read(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// setting keeps a setting if it is used here.
func (c *conf) setting(at place, key, value string) {
	switch {
	case at.section == "libdefaults" && at.depth == 0:
		key = strings.ToLower(key)
		if adapt := usedDefaults[key]; adapt != nil {
			c.set[key] = adapt(value)
			c.defaults = append(c.defaults, key+" = "+c.set[key])
		}
	case at.section == "realms" && at.depth == 1 && strings.EqualFold(key, "kdc"):
		c.kdcs[at.block] = append(c.kdcs[at.block], centersIn(value)...)
	case at.section == "domain_realm" && at.depth == 0:
		c.domains = append(c.domains, key+" = "+value)
	}
}

// centersIn returns the addresses in a value of kdc: one or several, separated by commas or blanks.
func centersIn(value string) []string {
	var addrs []string
	for _, center := range strings.Fields(list(value)) {
		addrs = append(addrs, centerAddress(center))
	}
	return addrs
}

// centerAddress returns the address of a center, HOST or HOST:PORT, as Java understands it (KdcComm): more than one
// colon outside of brackets belong to an IPv6 address, and a port that is no number is that of Kerberos. There are no
// protocols, neither for Java nor for MIT's library: tcp/HOST is a host of that name, which is not found.
func centerAddress(center string) string {
	host, port := center, ""
	if before, after, bracketed := strings.Cut(center, "]"); bracketed && center[0] == '[' {
		host, port = before[1:], strings.TrimPrefix(after, ":")
	} else if strings.Count(center, ":") == 1 {
		host, port, _ = strings.Cut(center, ":")
	}
	if n, err := strconv.Atoi(port); err != nil || n <= 0 {
		port = kdcPort
	}
	return net.JoinHostPort(host, port)
}

// usedDefaults are the settings of [libdefaults] that have an effect here, with what the library needs to understand
// their values.
var usedDefaults = map[string]func(string) string{
	"allow_weak_crypto":    truth,
	"canonicalize":         truth,
	"clockskew":            same,
	"default_realm":        same,
	"default_tgs_enctypes": list,
	"default_tkt_enctypes": list,
	"dns_fallback":         truth,
	"dns_lookup_kdc":       truth,
	"extra_addresses":      same,
	"forwardable":          truth,
	"kdc_default_options":  same,
	"noaddresses":          truth,
	"permitted_enctypes":   list,
	"proxiable":            truth,
	"renew_lifetime":       same,
	"ticket_lifetime":      same,
	"udp_preference_limit": same,
}

// defaultTypes are the encryption types of keys that are used by default: those of the library, and the newer ones that
// Java uses too (RFC 8009).
const defaultTypes = "aes256-cts-hmac-sha1-96 aes128-cts-hmac-sha1-96 aes256-cts-hmac-sha384-192 aes128-cts-hmac-sha256-128 " +
	"des3-cbc-sha1 arcfour-hmac-md5 camellia256-cts-cmac camellia128-cts-cmac des-cbc-crc des-cbc-md5 des-cbc-md4"

func same(value string) string { return value }

// truth adds the two spellings of a truth value that the library does not know.
func truth(value string) string {
	switch strings.ToLower(value) {
	case "on":
		return "true"
	case "off", "nil":
		return "false"
	}
	return value
}

// list allows commas between values.
func list(value string) string { return strings.ReplaceAll(value, ",", " ") }

// text returns the configuration in the form that the library understands.
func (c *conf) text() string {
	var b strings.Builder
	b.WriteString("[libdefaults]\n")
	if c.set["dns_lookup_kdc"] == "" { // as in Java: centers of a realm that is not listed are looked up
		fallback := c.set["dns_fallback"]
		if fallback == "" {
			fallback = "true"
		}
		b.WriteString("dns_lookup_kdc = " + fallback + "\n")
	}
	if c.set["default_tkt_enctypes"] == "" {
		b.WriteString("default_tkt_enctypes = " + defaultTypes + "\n")
	}
	for _, line := range c.defaults {
		b.WriteString(line + "\n")
	}
	b.WriteString("[realms]\n")
	for _, realm := range slices.Sorted(maps.Keys(c.kdcs)) {
		b.WriteString(realm + " = {\n")
		for _, kdc := range c.kdcs[realm] {
			b.WriteString("kdc = " + kdc + "\n")
		}
		b.WriteString("}\n")
	}
	b.WriteString("[domain_realm]\n")
	for _, line := range c.domains {
		b.WriteString(line + "\n")
	}
	return b.String()
}
