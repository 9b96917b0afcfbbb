package ssl

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"strings"
)

// keywords are the attribute names of RFC 2253; other attributes are written as numbers.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.9": "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// attribute is a part of a relative name, with its encoded value.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// relativeNameSET is an element of a name. encoding/asn1 recognises a SET by the name of this type.
type relativeNameSET []attribute

// Name returns the name of a certificate's subject in RFC 2253 form as Java prints it (X500Principal.getName), which
// rules, ACLs and quotas are written for: the last element first, no blanks in between, and attributes without a
// keyword in RFC 2253 as number and hexadecimal value.
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

// String returns TYPE=value.
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

// textOf returns a value as text, if Java considers it text. Java decodes every kind of string as UTF-8, whatever it
// is, and so must this function, since names are compared.
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

// escape puts a backslash before separators, and before blanks at either end.
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
