package ssl

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"strings"
)

// keywords are the names of attributes in RFC 2253; others are written as numbers.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.9": "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// attribute is one of those that a relative name is made of, with its value as it is encoded.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// relativeName is an element of a name. Its type name says to encoding/asn1 that it is a SET.
type relativeNameSET []attribute

// Name is the name of a certificate's owner by RFC 2253 as Java prints it (X500Principal.getName), which is what
// rules, ACLs and quotas are written for: the last element first, no blanks between, attributes that RFC 2253 has no
// keyword for as number and hexadecimal value.
func Name(cert *x509.Certificate) string { return name(cert.RawSubject) }

func name(der []byte) string {
	var elements []relativeNameSET
	if _, err := asn1.Unmarshal(der, &elements); err != nil {
		return ""
	}
	var b strings.Builder
	for i := len(elements) - 1; i >= 0; i-- {
		for j, a := range elements[i] {
			if j > 0 {
				b.WriteByte('+')
			}
			b.WriteString(a.String())
		}
		if i > 0 {
			b.WriteByte(',')
		}
	}
	return b.String()
}

// String is TYPE=value.
func (a attribute) String() string {
	id := a.Type.String()
	text, isText := textOf(a.Value)
	if keyword := keywords[id]; keyword != "" && isText {
		return keyword + "=" + escape(text)
	} else if keyword != "" {
		id = keyword
	}
	return id + "=#" + hex.EncodeToString(a.Value.FullBytes)
}

// textOf is a value as text, if Java takes it for one. It reads the bytes of every kind of string as UTF-8, whatever they
// are, and so must we: names are compared.
func textOf(v asn1.RawValue) (string, bool) {
	if v.Class != asn1.ClassUniversal {
		return "", false
	}
	switch v.Tag {
	case asn1.TagPrintableString, asn1.TagIA5String, asn1.TagUTF8String, asn1.TagGeneralString, asn1.TagT61String, asn1.TagBMPString:
		return string(v.Bytes), true
	}
	return "", false
}

// escape puts a backslash before what divides names, and before blanks at either end.
func escape(s string) string {
	lead := len(s) - len(strings.TrimLeft(s, " "))
	trail := len(strings.TrimRight(s, " "))
	var b strings.Builder
	for i, r := range s {
		switch {
		case strings.ContainsRune(`,=+<>#;"\`, r), r == ' ' && (i < lead || i >= trail):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == 0:
			b.WriteString(`\00`)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
