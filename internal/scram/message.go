package scram

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The messages of an exchange, RFC 5802 section 7, as far as Apache Kafka 3.9 takes them: names and values are of ASCII
// characters, there is no channel binding, and extensions may follow, of which tokenauth alone means something.
//
//	client-first  n,[a=AUTHZID],n=USER,r=NONCE[,EXTENSIONS]
//	server-first  r=NONCE,s=SALT,i=ITERATIONS[,EXTENSIONS]
//	client-final  c=CHANNEL-BINDING,r=NONCE[,EXTENSIONS],p=PROOF
//	server-final  v=SIGNATURE[,EXTENSIONS] or e=ERROR

// tokenExtension in a client's first message, with the value true, says that the user is the id of a delegation token
// and the password its HMAC (KIP-48).
const tokenExtension = "tokenauth"

var errMessage = errors.New("malformed SCRAM message")

// maxFields bounds the cost of a message that consists of commas only.
const maxFields = 100

// split splits a message into its fields, of which there must be at least the given number.
func split(message string, least int) ([]string, error) {
	fields := strings.SplitN(message, ",", maxFields+1)
	if len(fields) < least || len(fields) > maxFields {
		return nil, errMessage
	}
	return fields, nil
}

type clientFirst struct {
	authzID string // empty: none
	user    string
	nonce   string
	token   bool
	bare    string // the message without its first two fields
}

func parseClientFirst(message []byte) (clientFirst, error) {
	var m clientFirst
	flag, rest, _ := strings.Cut(string(message), ",")
	authz, bare, ok := strings.Cut(rest, ",")
	if flag != "n" || !ok {
		return m, errMessage
	}
	if authz != "" {
		name, ok := strings.CutPrefix(authz, "a=")
		if !ok {
			return m, errMessage
		}
		if m.authzID, ok = decodeName(name); !ok {
			return m, errMessage
		}
	}
	fields, err := split(bare, 2)
	if err != nil {
		return m, err
	}
	name, named := strings.CutPrefix(fields[0], "n=")
	nonce, withNonce := strings.CutPrefix(fields[1], "r=")
	if m.user, ok = decodeName(name); !ok || !named || !withNonce || !printable(nonce) {
		return m, errMessage
	}
	extensions, err := parseExtensions(fields[2:])
	if err != nil {
		return m, err
	}
	m.nonce, m.bare = nonce, bare
	m.token = strings.EqualFold(extensions[tokenExtension], "true")
	return m, nil
}

type serverFirst struct {
	nonce      string
	salt       []byte
	iterations int
	text       string
}

func newServerFirst(nonce string, c Credential) serverFirst {
	return serverFirst{nonce, c.Salt, c.Iterations,
		fmt.Sprintf("r=%s,s=%s,i=%d", nonce, base64.StdEncoding.EncodeToString(c.Salt), c.Iterations)}
}

func parseServerFirst(message []byte) (serverFirst, error) {
	m := serverFirst{text: string(message)}
	fields, err := split(m.text, 3)
	if err != nil {
		return m, err
	}
	nonce, withNonce := strings.CutPrefix(fields[0], "r=")
	salt, salted := strings.CutPrefix(fields[1], "s=")
	count, counted := strings.CutPrefix(fields[2], "i=")
	if !withNonce || !salted || !counted || !printable(nonce) {
		return m, errMessage
	}
	if m.salt, err = base64.StdEncoding.Strict().DecodeString(salt); err != nil {
		return m, errMessage
	}
	if m.iterations, err = strconv.Atoi(count); err != nil {
		return m, errMessage
	}
	m.nonce = nonce
	_, err = parseExtensions(fields[3:])
	return m, err
}

type clientFinal struct {
	nonce        string
	proof        []byte
	withoutProof string
}

// parseClientFinal parses the client's last message. As in Apache Kafka, it is not checked that the channel binding
// repeats the beginning of the first message: there is no channel to bind to, and the authorization id in it is either
// the user's own or refused.
func parseClientFinal(message []byte) (clientFinal, error) {
	var m clientFinal
	text := string(message)
	at := strings.LastIndex(text, ",p=")
	if at < 0 {
		return m, errMessage
	}
	m.withoutProof = text[:at]
	fields, err := split(m.withoutProof, 2)
	if err != nil {
		return m, err
	}
	binding, bound := strings.CutPrefix(fields[0], "c=")
	nonce, withNonce := strings.CutPrefix(fields[1], "r=")
	if !bound || !withNonce || !printable(nonce) {
		return m, errMessage
	}
	if _, err := base64.StdEncoding.DecodeString(binding); err != nil {
		return m, errMessage
	}
	if m.proof, err = base64.StdEncoding.DecodeString(text[at+len(",p="):]); err != nil {
		return m, errMessage
	}
	m.nonce = nonce
	_, err = parseExtensions(fields[2:])
	return m, err
}

func parseServerFinal(message []byte) (signature []byte, err error) {
	fields, err := split(string(message), 1)
	if err != nil {
		return nil, err
	}
	if text, ok := strings.CutPrefix(fields[0], "e="); ok {
		return nil, fmt.Errorf("the server refuses the login: %q", text)
	}
	text, ok := strings.CutPrefix(fields[0], "v=")
	if !ok {
		return nil, errMessage
	}
	if signature, err = base64.StdEncoding.DecodeString(text); err != nil {
		return nil, errMessage
	}
	_, err = parseExtensions(fields[1:])
	return signature, err
}

// parseExtensions parses the fields that may follow the mandatory ones: letters, an equals sign, a value.
func parseExtensions(fields []string) (map[string]string, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	extensions := make(map[string]string, len(fields))
	for _, field := range fields {
		key, value, ok := strings.Cut(field, "=")
		if !ok || !letters(key) || value == "" || !ascii(value) {
			return nil, errMessage
		}
		extensions[key] = value
	}
	return extensions, nil
}

// encodeName escapes a name for a message: a comma becomes =2C, an equals sign =3D.
func encodeName(name string) string {
	return strings.NewReplacer("=", "=3D", ",", "=2C").Replace(name)
}

// decodeName decodes what encodeName has written. It returns false for anything else, and for the empty name.
func decodeName(text string) (string, bool) {
	if text == "" || !ascii(text) {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '=':
			b.WriteByte(text[i])
			continue
		case strings.HasPrefix(text[i:], "=2C"):
			b.WriteByte(',')
		case strings.HasPrefix(text[i:], "=3D"):
			b.WriteByte('=')
		default:
			return "", false
		}
		i += 2
	}
	return b.String(), true
}

func ascii(text string) bool { return within(text, 0x01, 0x7f) }

// printable reports whether a text is a valid nonce.
func printable(text string) bool { return text != "" && within(text, 0x21, 0x7e) }

func within(text string, low, high byte) bool {
	for i := range len(text) {
		if text[i] < low || text[i] > high {
			return false
		}
	}
	return true
}

func letters(text string) bool {
	for i := range len(text) {
		if c := text[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return text != ""
}
