package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// kdcs are the key distribution centers that a configuration names.
//
// The library's client is not used to talk to them: over TCP it allocates whatever an answer's length field says, up to
// 4 GiB, and anyone on the path can send that answer.
type kdcs struct{ config *config.Config }

const (
	kdcPort      = "88"
	maxKDCAnswer = 1 << 20         // bytes; tickets with many groups have some tens of KiB
	kdcPatience  = 5 * time.Second // for each address, as in the library
)

// logIn gets a ticket-granting ticket with the keys of a keytab (RFC 4120, section 3.1). If the center requires
// pre-authentication, the request is repeated with a timestamp that is encrypted with the key.
func (k kdcs) logIn(c *credentials.Credentials, realm string) (messages.ASRep, error) {
	request, err := messages.NewASReqForTGT(realm, k.config, c.CName())
	if err != nil {
		return messages.ASRep{}, err
	}
	if request.ReqBody.EType, err = typesWithKeys(c, realm, request.ReqBody.EType); err != nil {
		return messages.ASRep{}, err
	}
	data, err := k.askFor(realm, &request)
	if refused := (messages.KRBError{}); errors.As(err, &refused) && refused.ErrorCode == errorcode.KDC_ERR_PREAUTH_REQUIRED {
		var proof types.PAData
		if proof, err = proofOfKey(c, realm, refused.EData); err == nil {
			request.PAData = append(request.PAData, proof)
			data, err = k.askFor(realm, &request)
		}
	}
	if err != nil {
		return messages.ASRep{}, err
	}
	var answer messages.ASRep
	if err := answer.Unmarshal(data); err != nil {
		return answer, err
	}
	anyVersion(&answer.EncPart, c.Keytab(), answer.CName, answer.CRealm)
	if good, err := answer.Verify(k.config, c, request); !good {
		return answer, fmt.Errorf("the answer is invalid, or the keytab has another key: %w", err)
	}
	return answer, nil
}

// typesWithKeys returns those of the encryption types for which the keytab has a key of its owner, as Java does. Asked
// for others, the center would encrypt its answer with a key that the keytab lacks: many hold one type of the several
// that the center knows.
func typesWithKeys(c *credentials.Credentials, realm string, allowed []int32) ([]int32, error) {
	var kinds []int32
	for _, kind := range allowed {
		if _, _, err := c.Keytab().GetEncryptionKey(c.CName(), realm, 0, kind); err == nil {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return nil, fmt.Errorf("the keytab has no key of %s@%s with an encryption type of default_tkt_enctypes", c.CName().PrincipalNameString(), realm)
	}
	return kinds, nil
}

// proofOfKey encrypts the time with an encryption type that a center asks for.
func proofOfKey(c *credentials.Credentials, realm string, listed []byte) (types.PAData, error) {
	var none types.PAData
	var hints types.PADataSequence
	if err := hints.Unmarshal(listed); err != nil {
		return none, fmt.Errorf("the request for pre-authentication: %w", err)
	}
	kind := wantedType(hints)
	if kind == 0 {
		return none, errors.New("the request for pre-authentication names no encryption type")
	}
	key, version, err := c.Keytab().GetEncryptionKey(c.CName(), realm, 0, kind)
	if err != nil {
		return none, err
	}
	now, err := types.GetPAEncTSEncAsnMarshalled()
	if err != nil {
		return none, err
	}
	sealed, err := crypto.GetEncryptedData(now, key, keyusage.AS_REQ_PA_ENC_TIMESTAMP, version)
	if err != nil {
		return none, err
	}
	value, err := sealed.Marshal()
	return types.PAData{PADataType: patype.PA_ENC_TIMESTAMP, PADataValue: value}, err
}

// wantedType returns the first encryption type that a center lists, or 0 if there is none. Old centers use another
// format for the list.
func wantedType(hints types.PADataSequence) (kind int32) {
	for _, h := range hints {
		switch h.PADataType {
		case patype.PA_ETYPE_INFO2:
			if info, err := h.GetETypeInfo2(); err == nil && len(info) > 0 {
				return info[0].EType
			}
		case patype.PA_ETYPE_INFO:
			if info, err := h.GetETypeInfo(); err == nil && len(info) > 0 {
				kind = info[0].EType
			}
		}
	}
	return kind
}

// ticket gets a ticket for a service, or a referral, by presenting another one (RFC 4120, section 3.3).
func (k kdcs) ticket(request messages.TGSReq, realm string, key types.EncryptionKey) (messages.TGSRep, error) {
	var answer messages.TGSRep
	data, err := k.askFor(realm, &request)
	if err != nil {
		return answer, err
	}
	if err := answer.Unmarshal(data); err != nil {
		return answer, err
	}
	if err := answer.DecryptEncPart(key); err != nil {
		return answer, err
	}
	if good, err := answer.Verify(k.config, request); !good {
		return answer, fmt.Errorf("the answer is invalid: %w", err)
	}
	return answer, nil
}

// askFor sends a request to a realm, by UDP or TCP according to udp_preference_limit, and by the other one if that
// fails. A refusal by the center is a messages.KRBError.
func (k kdcs) askFor(realm string, request interface{ Marshal() ([]byte, error) }) ([]byte, error) {
	data, err := request.Marshal()
	if err != nil {
		return nil, err
	}
	ways := []string{"tcp", "udp"}
	switch limit := k.config.LibDefaults.UDPPreferenceLimit; {
	case limit == 1:
		ways = ways[:1]
	case len(data) <= limit:
		ways = []string{"udp", "tcp"}
	}
	var failed []error
	for _, network := range ways {
		answer, err := k.askBy(network, realm, data)
		if err == nil {
			var refused messages.KRBError
			if refused.Unmarshal(answer) != nil {
				return answer, nil
			}
			if network != "udp" || refused.ErrorCode != errorcode.KRB_ERR_RESPONSE_TOO_BIG {
				return nil, refused
			}
			err = refused
		}
		failed = append(failed, fmt.Errorf("by %s: %w", network, err))
	}
	return nil, joined(failed)
}

// askBy asks one center of a realm after the other.
func (k kdcs) askBy(network, realm string, request []byte) ([]byte, error) {
	addrs, err := k.centers(network, realm)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, addr := range addrs {
		answer, err := exchangeWith(network, addr, request)
		if err == nil {
			return answer, nil
		}
		failed = append(failed, err)
	}
	return nil, joined(failed)
}

// centers returns the addresses of a realm's centers in the order of preference: that of the configuration, as in Java,
// or of the DNS if none is listed.
func (k kdcs) centers(network, realm string) ([]string, error) {
	for _, r := range k.config.Realms {
		if r.Realm == realm && len(r.KDC) > 0 {
			return r.KDC, nil
		}
	}
	_, found, err := k.config.GetKDCs(realm, network == "tcp")
	if err != nil {
		return nil, err
	}
	var addrs []string
	for i := 1; i <= len(found); i++ {
		addrs = append(addrs, found[i])
	}
	return addrs, nil
}

// joined joins errors as errors.Join does, but in one line.
func joined(errs []error) error {
	switch len(errs) {
	case 0:
		return errors.New("the realm has no key distribution center")
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w; %w", errs[0], joined(errs[1:]))
}

// exchangeWith sends a request to an address and returns the answer. Over TCP both are preceded by their length (RFC
// 4120, section 7.2.2).
func exchangeWith(network, addr string, request []byte) ([]byte, error) {
	conn, err := net.DialTimeout(network, addr, kdcPatience)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(kdcPatience)); err != nil {
		return nil, err
	}
	if network == "tcp" {
		request = append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	if network == "udp" {
		const largestDatagram = 64 << 10
		answer := make([]byte, largestDatagram)
		n, err := conn.Read(answer)
		return answer[:n], err
	}
	return readKDCAnswer(conn)
}

// readKDCAnswer reads an answer that is preceded by its length.
func readKDCAnswer(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, fmt.Errorf("the answer's length: %w", err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n == 0 || n > maxKDCAnswer {
		return nil, fmt.Errorf("an answer of %d bytes, which no key distribution center sends", n)
	}
	answer := make([]byte, n)
	if _, err := io.ReadFull(r, answer); err != nil {
		return nil, fmt.Errorf("the answer: %w", err)
	}
	return answer, nil
}
