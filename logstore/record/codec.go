package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
)

// maxDecompressed bounds the size of one batch after decompression, in bytes. It is the default maximum size of a
// request (socket.request.max.bytes): what could be sent uncompressed still fits.
const maxDecompressed = 100 << 20

// DefaultLevel makes Compress use the codec's default level.
const DefaultLevel = -1 << 31

// pooledWindow is the largest zstd window of a pooled decoder. Decoders keep their window's memory, and only the
// highest compression levels need more.
const pooledWindow = 8 << 20

// maxWindow is the largest zstd window, that of level 22.
const maxWindow = 128 << 20

// largeWindows has an element for each zstd decoder in use whose window is larger than pooledWindow. A frame of ten
// bytes can demand the largest window, so without a bound a few producers could exhaust the memory. Who holds one only
// computes.
var largeWindows = make(chan struct{}, 2)

// errTooLarge reports a batch that decompresses to more than maxDecompressed. It wraps MESSAGE_TOO_LARGE, on which
// producers divide a batch.
var errTooLarge = fmt.Errorf("batch decompresses to more than is allowed: %w", kerr.MessageTooLarge)

// String returns the codec's name in configurations.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case Lz4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

// ParseCodec returns the codec with the given name in configurations. "uncompressed" also stands for none.
func ParseCodec(name string) (Codec, error) {
	switch name {
	case "none", "uncompressed":
		return None, nil
	case "gzip":
		return Gzip, nil
	case "snappy":
		return Snappy, nil
	case "lz4":
		return Lz4, nil
	case "zstd":
		return Zstd, nil
	}
	return None, fmt.Errorf("unknown compression type %q", name)
}

// xerialMagic begins the snappy framing of Java clients: it is followed by two int32 of 1, and blocks preceded by their
// int32 length. Other clients send one raw block.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeader = 16
	xerialBlock  = 32 << 10
)

// decompress appends the decompressed content of src to dst. It accepts both framings of snappy. It fails with
// errTooLarge instead of producing more than maxDecompressed bytes.
func decompress(dst []byte, codec Codec, src []byte) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Snappy:
		return decompressSnappy(dst, src)
	}
	r, err := newReader(codec, src)
	if err != nil {
		return dst, err
	}
	defer r.close()
	return readAll(dst, r)
}

// readAll is io.ReadAll into dst, bounded.
func readAll(dst []byte, r io.Reader) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst)-start > maxDecompressed {
			return dst, errTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, fmt.Errorf("decompress: %w", err)
		}
	}
}

func decompressSnappy(dst, src []byte) ([]byte, error) {
	start := len(dst)
	err := snappyBlocks(src, func(block []byte) error {
		n, err := snappySize(block)
		if err != nil {
			return err
		}
		if len(dst)-start+n > maxDecompressed {
			return errTooLarge
		}
		at := len(dst)
		dst = append(dst, make([]byte, n)...)
		if _, err := snappy.Decode(dst[at:], block); err != nil {
			return fmt.Errorf("decompress: %w", err)
		}
		return nil
	})
	return dst, err
}

// snappySize returns the declared size of a block, provided that the block is long enough to contain as much: no
// element of the format expands 3 bytes to more than 64, so a length field alone cannot demand memory.
func snappySize(block []byte) (int, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return 0, fmt.Errorf("decompress: %w", err)
	}
	if n > 22*len(block) {
		return 0, fmt.Errorf("decompress: %w", snappy.ErrCorrupt)
	}
	return n, nil
}

// snappyBlocks calls fn with each block of either framing.
func snappyBlocks(src []byte, fn func(block []byte) error) error {
	if !bytes.HasPrefix(src, xerialMagic) {
		return fn(src)
	}
	if len(src) < xerialHeader {
		return fmt.Errorf("decompress: %w", io.ErrUnexpectedEOF)
	}
	for src = src[xerialHeader:]; len(src) > 0; {
		if len(src) < 4 {
			return fmt.Errorf("decompress: %w", io.ErrUnexpectedEOF)
		}
		n := binary.BigEndian.Uint32(src)
		if uint64(n) > uint64(len(src)-4) {
			return fmt.Errorf("decompress: %w", io.ErrUnexpectedEOF)
		}
		if err := fn(src[4 : 4+n]); err != nil {
			return err
		}
		src = src[4+n:]
	}
	return nil
}

// reader decompresses while it is read. close returns it to its pool.
type reader struct {
	io.Reader
	close func()
}

// The pools only save the setup of decoders: nothing in them outlives a batch.
var (
	gzipReaders   = sync.Pool{New: func() any { return new(gzip.Reader) }}
	lz4Readers    = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	snappyReaders = sync.Pool{New: func() any { return new(snappyReader) }}
	zstdReaders   = sync.Pool{New: func() any { return newZstd(pooledWindow) }}
)

func newZstd(window uint64) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}

// newReader returns a reader for any codec except None.
func newReader(codec Codec, src []byte) (reader, error) {
	in := bytes.NewReader(src)
	switch codec {
	case Gzip:
		z := gzipReaders.Get().(*gzip.Reader)
		if err := z.Reset(in); err != nil {
			return reader{}, fmt.Errorf("decompress: %w", noEOF(err))
		}
		return reader{z, func() { gzipReaders.Put(z) }}, nil
	case Snappy:
		z := snappyReaders.Get().(*snappyReader)
		*z = snappyReader{src: src, out: z.out}
		return reader{z, z.release}, nil
	case Lz4:
		z := lz4Readers.Get().(*lz4.Reader)
		z.Reset(in)
		return reader{z, func() { lz4Readers.Put(z) }}, nil
	case Zstd:
		return newZstdReader(in, src)
	}
	return reader{}, fmt.Errorf("decompress: unknown %v", codec)
}

func newZstdReader(in *bytes.Reader, src []byte) (reader, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return reader{}, fmt.Errorf("decompress: %w", noEOF(err))
	}
	window := h.WindowSize
	if h.SingleSegment { // the content is its own window
		window = h.FrameContentSize
	}
	if window > pooledWindow {
		return newLargeZstd(in)
	}
	z := zstdReaders.Get().(*zstd.Decoder)
	if err := z.Reset(in); err != nil {
		return reader{}, fmt.Errorf("decompress: %w", err)
	}
	return reader{z, func() {
		_ = z.Reset(nil) // releases the input; cannot fail without one
		zstdReaders.Put(z)
	}}, nil
}

// newLargeZstd waits until a decoder with the largest window may be created.
func newLargeZstd(in *bytes.Reader) (reader, error) {
	largeWindows <- struct{}{}
	z := newZstd(maxWindow)
	end := func() {
		z.Close()
		<-largeWindows
	}
	if err := z.Reset(in); err != nil {
		end()
		return reader{}, fmt.Errorf("decompress: %w", err)
	}
	return reader{z, end}, nil
}

// noEOF prevents an empty input from looking like a regular end.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// snappyReader decompresses block by block, so that it holds only one block at a time.
type snappyReader struct {
	src     []byte
	started bool
	xerial  bool
	out     []byte
	rest    []byte
}

// pooledBlock is the largest snappy block of a pooled reader, in bytes.
const pooledBlock = 256 << 10

// release returns the reader to its pool.
func (s *snappyReader) release() {
	if s.src = nil; cap(s.out) <= pooledBlock {
		snappyReaders.Put(s)
	}
}

func (s *snappyReader) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *snappyReader) next() error {
	if !s.started {
		s.started = true
		if s.xerial = bytes.HasPrefix(s.src, xerialMagic); s.xerial {
			if len(s.src) < xerialHeader {
				return io.ErrUnexpectedEOF
			}
			s.src = s.src[xerialHeader:]
		}
	} else if !s.xerial {
		return io.EOF
	}
	block := s.src
	if s.xerial {
		if len(s.src) == 0 {
			return io.EOF
		}
		if len(s.src) < 4 {
			return io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(s.src)
		if uint64(n) > uint64(len(s.src)-4) {
			return io.ErrUnexpectedEOF
		}
		block, s.src = s.src[4:4+n], s.src[4+n:]
	}
	return s.decode(block)
}

func (s *snappyReader) decode(block []byte) error {
	n, err := snappySize(block)
	if err != nil {
		return err
	}
	if cap(s.out) < n {
		s.out = make([]byte, n)
	}
	s.out, err = snappy.Decode(s.out[:cap(s.out)], block)
	s.rest = s.out
	return err
}

// Compress appends src, compressed and framed as by Java clients, to dst. level is on the codec's own scale (gzip 1-9,
// lz4 1-17, zstd -131072-22) or DefaultLevel.
func Compress(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		if level == DefaultLevel {
			level = gzip.DefaultCompression
		}
		return compressGzip(dst, level, src)
	case Snappy:
		return compressSnappy(dst, src), nil
	case Lz4:
		return compressLz4(dst, level, src)
	case Zstd:
		if level == DefaultLevel {
			level = 3
		}
		return compressZstd(dst, zstd.EncoderLevelFromZstd(level), src)
	}
	return dst, fmt.Errorf("compress: unknown %v", codec)
}

// Pools of unused compressors, by level: creating one costs more than compressing a batch.
var (
	gzipWriters [gzip.BestCompression - gzip.StatelessCompression + 1]sync.Pool
	lz4Writers  [lz4Levels]sync.Pool
	zstdWriters [zstd.SpeedBestCompression + 1]sync.Pool
)

func compressGzip(dst []byte, level int, src []byte) ([]byte, error) {
	if level < gzip.StatelessCompression || level > gzip.BestCompression {
		return dst, fmt.Errorf("compress: gzip has no level %d", level)
	}
	out := bytes.NewBuffer(dst)
	pool := &gzipWriters[level-gzip.StatelessCompression]
	w, _ := pool.Get().(*gzip.Writer)
	if w == nil {
		var err error
		if w, err = gzip.NewWriterLevel(out, level); err != nil {
			return dst, fmt.Errorf("compress: %w", err)
		}
	}
	w.Reset(out)
	dst, err := finish(out, w, src)
	w.Reset(io.Discard) // so that it does not retain a buffer of others
	pool.Put(w)
	return dst, err
}

func compressLz4(dst []byte, level int, src []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	pool := &lz4Writers[lz4Index(level)]
	w, _ := pool.Get().(*lz4.Writer)
	if w == nil {
		w = lz4.NewWriter(out)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false),
			lz4.ConcurrencyOption(1), lz4.CompressionLevelOption(lz4Level(level))); err != nil {
			return dst, fmt.Errorf("compress: %w", err)
		}
	}
	w.Reset(out)
	dst, err := finish(out, w, src)
	w.Reset(io.Discard) // so that it does not retain a buffer of others
	pool.Put(w)
	return dst, err
}

func compressZstd(dst []byte, level zstd.EncoderLevel, src []byte) ([]byte, error) {
	pool := &zstdWriters[level]
	w, _ := pool.Get().(*zstd.Encoder)
	if w == nil {
		var err error
		if w, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(level)); err != nil {
			return dst, fmt.Errorf("compress: %w", err)
		}
	}
	defer pool.Put(w)
	return w.EncodeAll(src, dst), nil
}

func finish(out *bytes.Buffer, w io.WriteCloser, src []byte) ([]byte, error) {
	if _, err := w.Write(src); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return out.Bytes(), nil
}

// lz4Level maps the levels 1-17 of the reference library, whose default 9 is the fast one in Kafka's use, to those of
// our library.
func lz4Level(level int) lz4.CompressionLevel {
	return [lz4Levels]lz4.CompressionLevel{lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6,
		lz4.Level7, lz4.Level8, lz4.Level9}[lz4Index(level)]
}

const lz4Levels = 10

func lz4Index(level int) int {
	switch {
	case level == DefaultLevel || level <= 2:
		return 0
	case level >= 11:
		return 9
	}
	return level - 2
}

func compressSnappy(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
	block := make([]byte, snappy.MaxEncodedLen(xerialBlock))
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		enc := snappy.Encode(block, src[:n])
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(enc)))
		dst = append(dst, enc...)
		src = src[n:]
	}
	return dst
}
