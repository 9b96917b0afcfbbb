// Package record decodes, checks, builds, converts and compresses record batches and messages, the units in which
// records are sent and stored.
//
// Layout of a batch, magic 2 (KIP-98). All integers are big-endian; the format is fixed.
//
//	 0  base offset             int64
//	 8  length after this field int32
//	12  partition leader epoch  int32   set by the leader, not covered by the CRC
//	16  magic                   int8
//	17  CRC-32C of byte 21..end uint32
//	21  attributes              int16   0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
//	23  last offset delta       int32
//	27  base timestamp          int64   or the delete horizon (KIP-534)
//	35  max timestamp           int64
//	43  producer id             int64   -1 none
//	51  producer epoch          int16
//	53  base sequence           int32   -1 none
//	57  record count            int32
//	61  records, compressed as one block if a codec is set
//
// Layout of a message, magic 0 and 1:
//
//	 0  offset                  int64
//	 8  length after this field int32
//	12  CRC-32 of byte 16..end  uint32
//	16  magic                   int8
//	17  attributes              int8    0-2 codec, 3 timestamp type (magic 1)
//	18  timestamp               int64   magic 1 only
//	    key, value              int32 length (-1 null) and bytes, each
//
// The package knows nothing about files and topics. Errors that a client must see wrap the *kerr.Error of their code.
package record
