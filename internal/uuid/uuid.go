// Package uuid converts the ids of topics and clusters to and from Apache Kafka's text: 22 characters of URL-safe base64
// (Uuid, 3.9).
package uuid

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
)

// New returns a random UUID (version 4). Its text never begins with a dash, so that it can be a command's argument
// (Uuid.randomUuid, 3.9).
func New() [16]byte {
	for {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if Text(id)[0] != '-' {
			return id
		}
	}
}

// Text returns the 22 characters.
func Text(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Parse parses them. Padding may follow.
func Parse(text string) (id [16]byte, err error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("not a UUID of 22 characters: %q", text)
	}
	return [16]byte(b), nil
}
