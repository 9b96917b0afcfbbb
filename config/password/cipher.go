package password

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"fmt"
	"slices"
	"strings"
)

// blockCipher encrypts with the mode and padding of one of Java's transformations.
type blockCipher struct {
	block  cipher.Block
	mode   string // CBC, CFB, OFB, CTR or GCM
	padded bool   // PKCS5Padding, otherwise NoPadding
}

// algorithms are the block ciphers, with their valid key lengths in bytes.
var algorithms = map[string]struct {
	keyBytes []int
	open     func(key []byte) (cipher.Block, error)
}{
	"AES":    {[]int{16, 24, 32}, aes.NewCipher},
	"DES":    {[]int{8}, des.NewCipher},
	"DESEDE": {[]int{24}, des.NewTripleDESCipher},
}

// transformation splits the name of a transformation, in upper case.
func transformation(name string) (algorithm, mode, padding string, err error) {
	parts := strings.Split(strings.ToUpper(name), "/")
	if len(parts) == 3 {
		algorithm, mode, padding = parts[0], parts[1], parts[2]
	}
	_, known := algorithms[algorithm]
	switch {
	case !known:
	case mode == "GCM" && algorithm == "AES" && padding == "NOPADDING",
		slices.Contains([]string{"CFB", "OFB", "CTR"}, mode) && (padding == "NOPADDING" || padding == "PKCS5PADDING" && mode != "CTR"),
		mode == "CBC" && padding == "PKCS5PADDING":
		return algorithm, mode, padding, nil
	}
	return "", "", "", fmt.Errorf("password: cipher %q: there are none but AES, DES and DESede, each with /CBC/PKCS5Padding, "+
		"/CFB/PKCS5Padding, /OFB/PKCS5Padding, /CFB/NoPadding, /OFB/NoPadding and /CTR/NoPadding, and AES/GCM/NoPadding", name)
}

// checkKey refuses a key length that the cipher does not support.
func checkKey(name string, keyBytes int) error {
	algorithm, _, _, err := transformation(name)
	if err != nil {
		return err
	}
	if allowed := algorithms[algorithm].keyBytes; !slices.Contains(allowed, keyBytes) {
		bits := make([]string, len(allowed))
		for i, n := range allowed {
			bits[i] = fmt.Sprint(8 * n)
		}
		return fmt.Errorf("password: a key of %d bits: %s takes one of %s", 8*keyBytes, name, strings.Join(bits, ", "))
	}
	return nil
}

func newBlockCipher(name string, key []byte) (blockCipher, error) {
	algorithm, mode, padding, err := transformation(name)
	if err != nil {
		return blockCipher{}, err
	}
	block, err := algorithms[algorithm].open(key)
	return blockCipher{block: block, mode: mode, padded: padding == "PKCS5PADDING"}, err
}

// Java's default lengths for GCM.
const (
	gcmIVBytes = 12
	gcmTagBits = 128
)

func (c blockCipher) ivBytes() int {
	if c.mode == "GCM" {
		return gcmIVBytes
	}
	return c.block.BlockSize()
}

func (c blockCipher) encrypt(iv, plain []byte) ([]byte, error) {
	if c.mode == "GCM" {
		aead, err := cipher.NewGCM(c.block)
		if err != nil {
			return nil, err
		}
		return aead.Seal(nil, iv, plain, nil), nil
	}
	data := slices.Clone(plain)
	if c.padded {
		n := c.block.BlockSize() - len(data)%c.block.BlockSize()
		data = append(data, bytes.Repeat([]byte{byte(n)}, n)...)
	}
	switch c.mode {
	case "CBC":
		cipher.NewCBCEncrypter(c.block, iv).CryptBlocks(data, data)
	case "CTR":
		cipher.NewCTR(c.block, iv).XORKeyStream(data, data)
	default:
		c.feedBack(iv, data, true)
	}
	return data, nil
}

func (c blockCipher) decrypt(iv, encrypted []byte, tagBits int) ([]byte, error) {
	if len(iv) != c.ivBytes() {
		return nil, fmt.Errorf("password: an initialization vector of %d bytes, this cipher has one of %d", len(iv), c.ivBytes())
	}
	data := slices.Clone(encrypted)
	switch c.mode {
	case "GCM":
		return c.openGCM(iv, data, tagBits)
	case "CBC":
		if len(data)%c.block.BlockSize() != 0 {
			return nil, errSecret
		}
		cipher.NewCBCDecrypter(c.block, iv).CryptBlocks(data, data)
	case "CTR":
		cipher.NewCTR(c.block, iv).XORKeyStream(data, data)
	default:
		c.feedBack(iv, data, false)
	}
	if !c.padded {
		return data, nil
	}
	return unpad(data, c.block.BlockSize())
}

func (c blockCipher) openGCM(iv, data []byte, tagBits int) ([]byte, error) {
	aead, err := cipher.NewGCMWithTagSize(c.block, tagBits/8)
	if err != nil {
		return nil, fmt.Errorf("password: %w", err)
	}
	plain, err := aead.Open(nil, iv, data, nil)
	if err != nil {
		return nil, errSecret
	}
	return plain, nil
}

// unpad removes the padding, in which every byte is its length.
func unpad(data []byte, blockSize int) ([]byte, error) {
	if len(data) == 0 {
		return nil, errSecret
	}
	n := int(data[len(data)-1])
	if n == 0 || n > blockSize || n > len(data) {
		return nil, errSecret
	}
	for _, b := range data[len(data)-n:] {
		if int(b) != n {
			return nil, errSecret
		}
	}
	return data[:len(data)-n], nil
}

// feedBack runs the modes CFB and OFB over data, in place: each block is combined with the encryption of what is fed
// back, which is the previous encrypted block (CFB) or the previous encryption output (OFB). The standard library
// advises against both, since they do not detect changes; but what a cluster has encrypted with them must be readable.
func (c blockCipher) feedBack(iv, data []byte, encrypting bool) {
	size := c.block.BlockSize()
	fed, stream := slices.Clone(iv), make([]byte, size)
	for len(data) > 0 {
		c.block.Encrypt(stream, fed)
		n := min(size, len(data))
		if c.mode == "OFB" {
			copy(fed, stream)
		} else if !encrypting {
			copy(fed, data[:n])
		}
		for i := range n {
			data[i] ^= stream[i]
		}
		if c.mode == "CFB" && encrypting {
			copy(fed, data[:n])
		}
		data = data[n:]
	}
}
