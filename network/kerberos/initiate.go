package kerberos

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// User is who a program logs in as. Its tickets are renewed by a goroutine of the library until Close.
type User struct {
	client *client.Client
}

// Realm is the default realm of a configuration (krb5.conf).
func Realm(file string) (string, error) {
	cfg, err := load(file)
	if err != nil {
		return "", err
	}
	return cfg.LibDefaults.DefaultRealm, nil
}

func load(file string) (*config.Config, error) {
	cfg, err := config.Load(file)
	var unsupported config.UnsupportedDirective
	if errors.As(err, &unsupported) && cfg != nil { // it is told of what does not matter here
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cfg, nil
}

// OpenUser is the user that the options of Java's login module name: one whose keys are in a keytab, or who has used kinit.
func OpenUser(configuration string, options map[string]string) (*User, error) {
	truth := func(name string) bool { return strings.EqualFold(options[name], "true") }
	switch {
	case truth("useKeyTab") && options["keyTab"] != "" && options["principal"] != "":
		return OpenKeytab(configuration, options["keyTab"], options["principal"])
	case truth("useTicketCache"):
		return OpenCache(configuration, cmp.Or(options["ticketCache"], strings.TrimPrefix(os.Getenv("KRB5CCNAME"), "FILE:"), fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())))
	}
	return nil, errors.New("its options must be useKeyTab=true, keyTab and principal, or useTicketCache=true")
}

// OpenKeytab is a user whose keys are in a keytab: NAME[/HOST][@REALM].
func OpenKeytab(configuration, file, principal string) (*User, error) {
	cfg, err := load(configuration)
	if err != nil {
		return nil, err
	}
	keys, err := keytab.Load(file)
	if err != nil {
		return nil, err
	}
	name, realm, found := strings.Cut(principal, "@")
	if !found {
		realm = cfg.LibDefaults.DefaultRealm
	}
	return &User{client.NewWithKeytab(name, realm, keys, cfg, client.DisablePAFXFAST(true))}, nil
}

// OpenCache is the user whose tickets kinit has put into a file.
func OpenCache(configuration, file string) (*User, error) {
	cfg, err := load(configuration)
	if err != nil {
		return nil, err
	}
	cache, err := credentials.LoadCCache(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	cl, err := client.NewFromCCache(cache, cfg, client.DisablePAFXFAST(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &User{cl}, nil
}

// Close ends the renewal of tickets.
func (u *User) Close() { u.client.Destroy() }

// Name is the principal.
func (u *User) Name() string {
	return u.client.Credentials.CName().PrincipalNameString() + "@" + u.client.Credentials.Domain()
}

// Start begins a login at a service of a host. The function that it gives takes the server's next message, none at first, and
// returns the answer to it; nil: there is none, the login is done.
func (u *User) Start(service, host string) (func(message []byte) ([]byte, error), error) {
	ticket, key, err := u.client.GetServiceTicket(service + "/" + host)
	if err != nil {
		return nil, fmt.Errorf("get a ticket for %s/%s as %s: %w", service, host, u.Name(), err)
	}
	token, sequence, err := u.request(ticket, key)
	if err != nil {
		return nil, err
	}
	step := 0
	return func(message []byte) ([]byte, error) {
		step++
		switch step {
		case 1:
			return token, nil
		case 2:
			return choose(message, key, sequence)
		}
		return nil, nil
	}, nil
}

// request makes the message that shows a ticket, and tells from where its sequence numbers count. The server need not prove who
// it is in an answer of its own: its offer does.
func (u *User) request(ticket messages.Ticket, key types.EncryptionKey) (token []byte, sequence uint64, err error) {
	proof, err := types.NewAuthenticator(u.client.Credentials.Domain(), u.client.Credentials.CName())
	if err != nil {
		return nil, 0, err
	}
	proof.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: integrityWanted}
	request, err := messages.NewAPReq(ticket, key, proof)
	if err != nil {
		return nil, 0, err
	}
	body, err := request.Marshal()
	if err != nil {
		return nil, 0, err
	}
	token, err = frame(kindRequest, body)
	return token, uint64(proof.SeqNumber), err
}

// integrityWanted is the checksum of an authenticator for GSS-API (RFC 4121, section 4.1.1): without channel bindings, with the
// flag for integrity.
var integrityWanted = append(binary.LittleEndian.AppendUint32(nil, 16), append(make([]byte, 16), gssapi.ContextFlagInteg, 0, 0, 0)...)

// choose answers the server's offer of security layers. Only who could read the ticket can have protected it.
func choose(offer []byte, key types.EncryptionKey, sequence uint64) ([]byte, error) {
	layers, err := unwrap(offer, key, true)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the server's offer: %w", err)
	case len(layers) != layerMessage || layers[0]&noLayer == 0:
		return nil, errors.New("the server insists on a security layer, which there is none of here")
	}
	return wrap([]byte{noLayer, 0, 0, largestBuffer}, key, false, sequence)
}
