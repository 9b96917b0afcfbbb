package kerberos

import (
	"bytes"
	"errors"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The kinds of inner tokens (RFC 4121, section 4.1).
var (
	kindRequest = []byte{1, 0} // AP-REQ
	kindReply   = []byte{2, 0} // AP-REP
)

// frame wraps a body in a mechanism's token (RFC 2743, section 3.1).
func frame(kind, body []byte) ([]byte, error) {
	token, err := asn1.Marshal(gssapi.OIDKRB5.OID())
	if err != nil {
		return nil, err
	}
	return asn1tools.AddASNAppTag(append(append(token, kind...), body...), 0), nil
}

// unframe returns the body and kind of a mechanism's token.
func unframe(token []byte) (kind, body []byte, err error) {
	var oid asn1.ObjectIdentifier
	rest, err := asn1.UnmarshalWithParams(token, &oid, "application,explicit,tag:0")
	switch {
	case err != nil:
		return nil, nil, errors.New("it is not a GSS-API token")
	case !oid.Equal(gssapi.OIDKRB5.OID()):
		return nil, nil, errors.New("its mechanism is not Kerberos 5")
	case len(rest) < 2:
		return nil, nil, errors.New("it is cut short")
	}
	return rest[:2], rest[2:], nil
}

// reply returns the AP-REP for an authenticator, which proves to the client that the server could decrypt it (RFC 4120,
// section 3.2.4).
func reply(to types.Authenticator, sessionKey types.EncryptionKey) ([]byte, error) {
	inner, err := asn1.Marshal(messages.EncAPRepPart{CTime: to.CTime, Cusec: to.Cusec})
	if err != nil {
		return nil, err
	}
	sealed, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(inner, asnAppTag.EncAPRepPart), sessionKey, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, err
	}
	outer, err := asn1.Marshal(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: sealed})
	if err != nil {
		return nil, err
	}
	return frame(kindReply, asn1tools.AddASNAppTag(outer, asnAppTag.APREP))
}

// The flags of a wrap token (RFC 4121, section 4.2.2).
const (
	flagAcceptor = 1
	flagSealed   = 2
)

// wrap protects the few bytes that end a login, without encryption.
func wrap(payload []byte, key types.EncryptionKey, fromAcceptor bool, sequence uint64) ([]byte, error) {
	etype, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return nil, err
	}
	w := gssapi.WrapToken{EC: uint16(etype.GetHMACBitLength() / 8), SndSeqNum: sequence, Payload: payload}
	if fromAcceptor {
		w.Flags = flagAcceptor
	}
	if err := w.SetCheckSum(key, sealUsage(fromAcceptor)); err != nil {
		return nil, err
	}
	return w.Marshal()
}

// unwrap returns what the other side has protected.
func unwrap(token []byte, key types.EncryptionKey, fromAcceptor bool) ([]byte, error) {
	token = bytes.Clone(token)
	var w gssapi.WrapToken
	if err := unrotate(token); err != nil {
		return nil, err
	}
	if err := w.Unmarshal(token, fromAcceptor); err != nil {
		return nil, err
	}
	if w.Flags&flagSealed != 0 {
		return nil, errors.New("it is encrypted, which was not negotiated")
	}
	if ok, err := w.Verify(key, sealUsage(fromAcceptor)); err != nil || !ok {
		return nil, errors.New("its checksum is wrong")
	}
	return w.Payload, nil
}

// unrotate undoes, in place, the right rotation that some implementations apply (RFC 4121, section 4.2.5).
func unrotate(token []byte) error {
	if len(token) < gssapi.HdrLen {
		return errors.New("it is cut short")
	}
	body := token[gssapi.HdrLen:]
	by := int(token[6])<<8 | int(token[7])
	if by == 0 || len(body) == 0 {
		return nil
	}
	by %= len(body)
	copy(body, append(bytes.Clone(body[by:]), body[:by]...))
	token[6], token[7] = 0, 0
	return nil
}

func sealUsage(fromAcceptor bool) uint32 {
	if fromAcceptor {
		return keyusage.GSSAPI_ACCEPTOR_SEAL
	}
	return keyusage.GSSAPI_INITIATOR_SEAL
}
