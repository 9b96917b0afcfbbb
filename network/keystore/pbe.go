package keystore

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des" //nolint:gosec // what old stores are encrypted with
	"crypto/pbkdf2"
	"crypto/sha1" //nolint:gosec // the formats'
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
	"math/big"
)

// maxIterations bounds the work that a store can demand, as in Java.
const maxIterations = 5_000_000

// The encryption schemes found in stores: today's PBES2 (RFC 8018), and the older ones of PKCS#12 (RFC 7292).
var (
	oidPBES2     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	oidTripleDES = asn1.ObjectIdentifier{1, 2, 840, 113549, 3, 7}
	oidAES       = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1} // with 2, 22 or 42 appended: CBC with 128, 192 or 256 bits
	oidPBE3DES   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 1, 3}
	oidPBERC2128 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 1, 5}
	oidPBERC240  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 1, 6}
	oidHMACs     = asn1.ObjectIdentifier{1, 2, 840, 113549, 2}
	oidSHA1      = asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26}
	oidSHA2      = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2}
)

// encryptedKeyInfo is EncryptedPrivateKeyInfo of PKCS#8.
type encryptedKeyInfo struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2Params struct{ KeyDerivation, Encryption pkix.AlgorithmIdentifier }

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyBytes   int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

type pkcs12Params struct {
	Salt       []byte
	Iterations int
}

// unmarshal parses one DER value that fills all of b.
func unmarshal(b []byte, into any) error {
	rest, err := asn1.Unmarshal(b, into)
	if err == nil && len(rest) != 0 {
		err = errors.New("trailing bytes")
	}
	return err
}

// last returns an identifier's last number if the preceding ones are those of family.
func last(oid, family asn1.ObjectIdentifier) int {
	if len(oid) != len(family)+1 || !oid[:len(family)].Equal(family) {
		return -1
	}
	return oid[len(family)]
}

// decrypt decrypts with a password-based scheme.
func decrypt(algorithm pkix.AlgorithmIdentifier, data []byte, password string) ([]byte, error) {
	var (
		block cipher.Block
		iv    []byte
		err   error
	)
	if algorithm.Algorithm.Equal(oidPBES2) {
		block, iv, err = pbes2(algorithm.Parameters.FullBytes, password)
	} else {
		block, iv, err = pkcs12Cipher(algorithm, password)
	}
	if err != nil {
		return nil, err
	}
	if size := block.BlockSize(); len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("the encrypted data has an invalid size")
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	return unpad(plain, block.BlockSize())
}

// decryptKey decrypts a private key.
func decryptKey(info encryptedKeyInfo, password string) ([]byte, error) {
	der, err := decrypt(info.Algorithm, info.Data, password)
	if err == nil {
		var inner asn1.RawValue
		if unmarshal(der, &inner) != nil { // a wrong password can decrypt to what looks like valid padding
			err = ErrPassword
		}
	}
	if errors.Is(err, ErrPassword) {
		return nil, &KeyPasswordError{err}
	}
	return der, err
}

// unpad removes the PKCS#7 padding. That it is valid almost always means that the password is right.
func unpad(b []byte, size int) ([]byte, error) {
	n := int(b[len(b)-1])
	if n == 0 || n > size || !bytes.Equal(b[len(b)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, ErrPassword
	}
	return b[:len(b)-n], nil
}

func pbes2(params []byte, password string) (cipher.Block, []byte, error) {
	var p pbes2Params
	if err := unmarshal(params, &p); err != nil {
		return nil, nil, err
	}
	keyBytes, newCipher := 0, aes.NewCipher
	switch kind := last(p.Encryption.Algorithm, oidAES); {
	case kind == 2:
		keyBytes = 16
	case kind == 22:
		keyBytes = 24
	case kind == 42:
		keyBytes = 32
	case p.Encryption.Algorithm.Equal(oidTripleDES):
		keyBytes, newCipher = 24, des.NewTripleDESCipher
	default:
		return nil, nil, unknownAlgorithm("cipher", p.Encryption.Algorithm)
	}
	key, err := derive(p.KeyDerivation, password, keyBytes)
	if err != nil {
		return nil, nil, err
	}
	var iv []byte
	if err := unmarshal(p.Encryption.Parameters.FullBytes, &iv); err != nil {
		return nil, nil, err
	}
	block, err := newCipher(key)
	return block, iv, err
}

func derive(algorithm pkix.AlgorithmIdentifier, password string, keyBytes int) ([]byte, error) {
	if !algorithm.Algorithm.Equal(oidPBKDF2) {
		return nil, unknownAlgorithm("key derivation", algorithm.Algorithm)
	}
	var p pbkdf2Params
	if err := unmarshal(algorithm.Parameters.FullBytes, &p); err != nil {
		return nil, err
	}
	if err := checkIterations(p.Iterations); err != nil {
		return nil, err
	}
	newHash := sha1.New
	if len(p.PRF.Algorithm) != 0 {
		switch last(p.PRF.Algorithm, oidHMACs) {
		case 7:
		case 8:
			newHash = sha256.New224
		case 9:
			newHash = sha256.New
		case 10:
			newHash = sha512.New384
		case 11:
			newHash = sha512.New
		default:
			return nil, unknownAlgorithm("HMAC", p.PRF.Algorithm)
		}
	}
	return pbkdf2.Key(newHash, password, p.Salt, p.Iterations, keyBytes)
}

func checkIterations(n int) error {
	if n < 1 || n > maxIterations {
		return fmt.Errorf("it asks for %d iterations, from 1 to %d are possible", n, maxIterations)
	}
	return nil
}

func unknownAlgorithm(what string, oid asn1.ObjectIdentifier) error {
	return fmt.Errorf("the %s %v is not supported", what, oid)
}

// pkcs12Cipher sets up one of the ciphers specific to PKCS#12.
func pkcs12Cipher(algorithm pkix.AlgorithmIdentifier, password string) (cipher.Block, []byte, error) {
	keyBytes, newCipher := 0, newRC2
	switch oid := algorithm.Algorithm; {
	case oid.Equal(oidPBE3DES):
		keyBytes, newCipher = 24, des.NewTripleDESCipher
	case oid.Equal(oidPBERC2128):
		keyBytes = 16
	case oid.Equal(oidPBERC240):
		keyBytes = 5
	default:
		return nil, nil, unknownAlgorithm("encryption", oid)
	}
	var p pkcs12Params
	if err := unmarshal(algorithm.Parameters.FullBytes, &p); err != nil {
		return nil, nil, err
	}
	if err := checkIterations(p.Iterations); err != nil {
		return nil, nil, err
	}
	block, err := newCipher(pkcs12Derive(sha1.New, forKey, password, p.Salt, p.Iterations, keyBytes))
	return block, pkcs12Derive(sha1.New, forIV, password, p.Salt, p.Iterations, des.BlockSize), err
}

// What a key is derived for (RFC 7292, appendix B.3).
const (
	forKey = 1
	forIV  = 2
	forMAC = 3
)

// pkcs12Derive implements the derivation of RFC 7292, appendix B.2, whose names are in the comments.
func pkcs12Derive(newHash func() hash.Hash, purpose byte, password string, salt []byte, iterations, size int) []byte {
	h := newHash()
	v := h.BlockSize()
	diversifier := bytes.Repeat([]byte{purpose}, v) // D
	secret := append(utf16Password(password), 0, 0)
	input := append(fill(salt, v), fill(secret, v)...) // I
	var derived []byte
	for {
		h.Reset()
		h.Write(diversifier)
		h.Write(input)
		a := h.Sum(nil)
		for range iterations - 1 {
			h.Reset()
			h.Write(a)
			a = h.Sum(a[:0])
		}
		if derived = append(derived, a...); len(derived) >= size {
			return derived[:size]
		}
		addToBlocks(input, fill(a, v)[:v], v)
	}
}

// fill repeats b until it fills whole blocks.
func fill(b []byte, blockBytes int) []byte {
	if len(b) == 0 {
		return nil
	}
	size := (len(b) + blockBytes - 1) / blockBytes * blockBytes
	return bytes.Repeat(b, size/len(b)+1)[:size]
}

// addToBlocks adds b+1 to each block of input, as big-endian numbers without carry out of the block.
func addToBlocks(input, b []byte, blockBytes int) {
	plus := new(big.Int).Add(new(big.Int).SetBytes(b), big.NewInt(1))
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(8*blockBytes))
	for at := 0; at < len(input); at += blockBytes {
		block := input[at : at+blockBytes]
		sum := new(big.Int).SetBytes(block)
		sum.Add(sum, plus).Mod(sum, modulus).FillBytes(block)
	}
}
