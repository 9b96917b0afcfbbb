package zklogin

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// digestURI is the digest-uri of ZooKeeper clients, whatever the server's name.
const digestURI = "zookeeper/zk-sasl-md5"

// digest is the client's side of DIGEST-MD5 (RFC 2831) without a security layer, as accepted by ZooKeeper servers.
type digest struct {
	username, password string
	cnonce             string

	began    bool
	expected string // the rspauth that only a server that knows the password can send
}

func newDigest(username, password string) *digest {
	return &digest{username: username, password: password, cnonce: rand.Text()}
}

// step handles the server's messages: none at first, its challenge, and the proof that it knows the password.
func (d *digest) step(message []byte) ([]byte, error) {
	switch {
	case !d.began:
		d.began = true
		return []byte{}, nil
	case d.expected != "":
		return nil, d.verify(message)
	}
	response, err := d.respond(message)
	if err != nil {
		return nil, fmt.Errorf("the server's challenge: %w", err)
	}
	return response, nil
}

// respond answers the server's challenge.
func (d *digest) respond(challenge []byte) ([]byte, error) {
	given, err := directives(string(challenge))
	if err != nil {
		return nil, err
	}
	nonce := given["nonce"]
	switch {
	case nonce == "":
		return nil, errors.New("there is no nonce")
	case given["algorithm"] != "md5-sess":
		return nil, fmt.Errorf("the algorithm is %q, not md5-sess", given["algorithm"])
	case given["qop"] != "" && !offers(given["qop"], "auth"):
		return nil, fmt.Errorf("none of qop=%q is supported", given["qop"])
	}
	utf8 := strings.EqualFold(given["charset"], "utf-8")
	realm := given["realm"]
	secret := md5.Sum(encoded(d.username+":"+realm+":"+d.password, utf8))
	key := hexOf(string(secret[:]) + ":" + nonce + ":" + d.cnonce + ":" + d.username)
	answer := func(method string) string {
		return hexOf(key + ":" + nonce + ":00000001:" + d.cnonce + ":auth:" + hexOf(method+":"+digestURI))
	}
	d.expected = answer("")
	var response strings.Builder
	if utf8 {
		response.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&response, "username=%s,", quote(d.username))
	if realm != "" {
		fmt.Fprintf(&response, "realm=%s,", quote(realm))
	}
	fmt.Fprintf(&response, "nonce=%s,nc=00000001,cnonce=%s,digest-uri=%s,maxbuf=65536,response=%s,qop=auth,authzid=%s",
		quote(nonce), quote(d.cnonce), quote(digestURI), answer("AUTHENTICATE"), quote(d.username))
	return []byte(response.String()), nil
}

// verify checks that the server knows the password too.
func (d *digest) verify(final []byte) error {
	given, err := directives(string(final))
	if err != nil {
		return err
	}
	if d.expected == "" || subtle.ConstantTimeCompare([]byte(given["rspauth"]), []byte(d.expected)) != 1 {
		return errors.New("the server does not prove that it knows the password")
	}
	return nil
}

func hexOf(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// encoded returns the text to be hashed: in ISO 8859-1 if possible, even for a server that reads UTF-8 (RFC 2831,
// section 2.1.2.1).
func encoded(text string, utf8 bool) []byte {
	latin := make([]byte, 0, len(text))
	for _, r := range text {
		switch {
		case r <= 0xff:
			latin = append(latin, byte(r))
		case utf8:
			return []byte(text)
		default:
			latin = append(latin, '?')
		}
	}
	return latin
}

func offers(list, wanted string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.TrimSpace(one), wanted) {
			return true
		}
	}
	return false
}

func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// directives parses the key=value pairs of a challenge. If one is given several times, as realms are, the first counts.
func directives(text string) (map[string]string, error) {
	given := make(map[string]string)
	for {
		text = strings.TrimLeft(text, ", \t\r\n")
		if text == "" {
			return given, nil
		}
		key, rest, found := strings.Cut(text, "=")
		if !found {
			return nil, errors.New("a directive has no value")
		}
		value, rest, err := directiveValue(rest)
		if err != nil {
			return nil, err
		}
		key = strings.ToLower(strings.TrimSpace(key))
		if _, again := given[key]; !again {
			given[key] = value
		}
		text = rest
	}
}

// directiveValue parses a value, quoted or not, and returns the rest.
func directiveValue(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexByte(text, ',')
		if end < 0 {
			end = len(text)
		}
		return strings.TrimSpace(text[:end]), text[end:], nil
	}
	var unquoted strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return unquoted.String(), text[i+1:], nil
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		unquoted.WriteByte(text[i])
	}
	return "", "", errors.New("a quotation mark is not closed")
}
