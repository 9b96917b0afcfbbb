// Package password keeps passwords in ZooKeeper, where Apache Kafka's brokers can read them and the other way round
// (KIP-226; EncryptingPasswordEncoder, 3.9): encrypted with a key that is derived from the broker's own secret.
//
// An encoded password is one line of name:value pairs, separated by commas, which says all that is needed to decode it
// but the secret:
//
//	initializationVector     base64
//	keyLength                of the derived key, bits
//	salt                     base64
//	keyFactoryAlgorithm      PBKDF2WithHmac and a hash
//	cipherAlgorithm          algorithm/mode/padding
//	authenticationTagLength  bits, with GCM only
//	iterations               of PBKDF2
//	passwordLength           in UTF-16 code units
//	encryptedPassword        base64
//
// The package knows nothing of settings and where they are kept.
package password

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"unicode/utf16"
)

// The defaults of an Encoder, which are those of password.encoder.*.
const (
	defaultKeyFactory = "PBKDF2WithHmacSHA512"
	DefaultCipher     = "AES/CBC/PKCS5Padding"
	DefaultKeyBits    = 128
	DefaultIterations = 4096
)

// Encoder encodes with its settings, and decodes with its secret whatever settings a password was encoded with. It is
// safe for concurrent use.
type Encoder struct {
	Secret     string
	KeyFactory string // empty: PBKDF2WithHmacSHA512
	Cipher     string // algorithm/mode/padding, in Java's names
	KeyBits    int
	Iterations int
}

const saltBytes = 256

// Encode encrypts a password. Two encodings of one password differ.
func (e Encoder) Encode(password string) (string, error) {
	p := params{keyFactory: e.KeyFactory, cipher: e.Cipher, keyBits: e.KeyBits, iterations: e.Iterations, salt: make([]byte, saltBytes)}
	if p.keyFactory == "" {
		p.keyFactory = defaultKeyFactory
	}
	_, _ = rand.Read(p.salt) // never fails
	c, err := p.open(e.Secret)
	if err != nil {
		return "", err
	}
	p.iv = make([]byte, c.ivBytes())
	_, _ = rand.Read(p.iv)
	if p.tagBits = 0; c.mode == "GCM" {
		p.tagBits = gcmTagBits
	}
	if p.encrypted, err = c.encrypt(p.iv, []byte(password)); err != nil {
		return "", err
	}
	p.length = utf16Length(password)
	return p.String(), nil
}

// Decode decrypts what an Encoder with the same secret has encoded.
func (e Encoder) Decode(encoded string) (string, error) {
	p, err := parse(encoded)
	if err != nil {
		return "", err
	}
	c, err := p.open(e.Secret)
	if err != nil {
		return "", err
	}
	plain, err := c.decrypt(p.iv, p.encrypted, p.tagBits)
	if err != nil {
		return "", err
	}
	if utf16Length(string(plain)) != p.length {
		return "", errSecret
	}
	return string(plain), nil
}

// errSecret reports that a password was encoded with another secret; damage looks the same.
var errSecret = errors.New("password: cannot be decoded with this secret")

func utf16Length(text string) int {
	n := 0
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

// params are the fields of an encoded password.
type params struct {
	keyFactory, cipher          string
	keyBits, iterations, length int
	tagBits                     int // 0: none
	salt, iv, encrypted         []byte
}

// The names of the fields.
const (
	ivField         = "initializationVector"
	keyBitsField    = "keyLength"
	saltField       = "salt"
	keyFactoryField = "keyFactoryAlgorithm"
	cipherField     = "cipherAlgorithm"
	tagBitsField    = "authenticationTagLength"
	iterationsField = "iterations"
	lengthField     = "passwordLength"
	encryptedField  = "encryptedPassword"
)

// String formats the fields in Apache Kafka's order.
func (p params) String() string {
	fields := []string{
		ivField + ":" + base64.StdEncoding.EncodeToString(p.iv),
		keyBitsField + ":" + strconv.Itoa(p.keyBits),
		saltField + ":" + base64.StdEncoding.EncodeToString(p.salt),
		keyFactoryField + ":" + p.keyFactory,
		cipherField + ":" + p.cipher,
	}
	if p.tagBits > 0 {
		fields = append(fields, tagBitsField+":"+strconv.Itoa(p.tagBits))
	}
	fields = append(fields, iterationsField+":"+strconv.Itoa(p.iterations), lengthField+":"+strconv.Itoa(p.length),
		encryptedField+":"+base64.StdEncoding.EncodeToString(p.encrypted))
	return strings.Join(fields, ",")
}

// parse parses the fields in any order. Unknown ones are ignored.
func parse(encoded string) (params, error) {
	fields := make(map[string]string)
	for pair := range strings.SplitSeq(encoded, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), ":")
		if !ok {
			return params{}, errors.New("password: is not encoded")
		}
		fields[name] = value
	}
	var err error
	number := func(name string) int {
		n, e := strconv.ParseInt(fields[name], 10, 32)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("password: %s=%q is not a number", name, fields[name]))
		}
		return int(n)
	}
	bytes := func(name string) []byte {
		b, e := base64.StdEncoding.DecodeString(fields[name])
		if e != nil {
			err = errors.Join(err, fmt.Errorf("password: %s is not base64", name))
		}
		return b
	}
	p := params{keyFactory: fields[keyFactoryField], cipher: fields[cipherField], keyBits: number(keyBitsField),
		iterations: number(iterationsField), length: number(lengthField), salt: bytes(saltField), iv: bytes(ivField),
		encrypted: bytes(encryptedField)}
	if _, ok := fields[tagBitsField]; ok {
		p.tagBits = number(tagBitsField)
	}
	return p, err
}

// maxIterations bounds the cost of a damaged node: some seconds.
const maxIterations = 10_000_000

// open returns the cipher with the key derived from the secret.
func (p params) open(secret string) (blockCipher, error) {
	newHash, err := hashOf(p.keyFactory)
	if err != nil {
		return blockCipher{}, err
	}
	if p.iterations < 1 || p.iterations > maxIterations {
		return blockCipher{}, fmt.Errorf("password: %d iterations: must be from 1 to %d", p.iterations, maxIterations)
	}
	keyBytes := p.keyBits / 8
	if err := checkKey(p.cipher, keyBytes); err != nil {
		return blockCipher{}, err
	}
	key, err := pbkdf2.Key(newHash, secret, p.salt, p.iterations, keyBytes)
	if err != nil {
		return blockCipher{}, fmt.Errorf("password: %w", err)
	}
	return newBlockCipher(p.cipher, key)
}

// hashOf returns the hash of a key factory, whose name is case-insensitive in Java.
func hashOf(keyFactory string) (func() hash.Hash, error) {
	switch strings.ToUpper(keyFactory) {
	case "PBKDF2WITHHMACSHA1":
		return sha1.New, nil
	case "PBKDF2WITHHMACSHA224":
		return sha256.New224, nil
	case "PBKDF2WITHHMACSHA256":
		return sha256.New, nil
	case "PBKDF2WITHHMACSHA384":
		return sha512.New384, nil
	case "PBKDF2WITHHMACSHA512":
		return sha512.New, nil
	}
	return nil, fmt.Errorf("password: key factory %q: use PBKDF2WithHmacSHA1, 224, 256, 384 or 512", keyFactory)
}
