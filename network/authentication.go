package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"barnabas/internal/await"
	"barnabas/internal/logx"
	"barnabas/network/sasl"

	"github.com/sirupsen/logrus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// saslStage is how far a client's login has got (SaslServerAuthenticator, 3.9).
type saslStage uint8

const (
	stageNew         saslStage = iota // ApiVersions or SaslHandshake comes next
	stageVersions                     // SaslHandshake comes next
	stageTokens                       // a mechanism was chosen: its messages follow, in SaslAuthenticate or bare
	stageNoMechanism                  // a re-authentication chose another mechanism than the login: the next request closes the connection
	stageDone                         // any request may come
)

// authentication is a connection's SASL stage. The connection's reader owns it.
type authentication struct {
	server    *sasl.Server
	counts    *AuthenticationCounts
	stage     saslStage
	bare      bool // messages come without a request around them, as after SaslHandshake v0
	mechanism *sasl.Mechanism
	exchange  sasl.Exchange

	first   *sasl.Mechanism // of the connection's current login; nil: none yet
	who     sasl.Login      // of that login
	expires time.Time       // when that login ends; zero: never
	began   time.Time       // of the last re-authentication (KIP-368)
	failed  error           // closes the connection after the answer that reports it
}

// AuthenticationCounts counts the authentication attempts of a listener's clients. Safe for concurrent use.
type AuthenticationCounts struct {
	Succeeded        atomic.Int64 // first logins
	SucceededUnaware atomic.Int64 // of these, by clients that cannot re-authenticate
	Failed           atomic.Int64
	Again            atomic.Int64 // re-authentications
	FailedAgain      atomic.Int64
	Expired          atomic.Int64 // connections closed because the client did not re-authenticate in time
}

// minAgain is the minimum time between two logins after the first; a re-authentication that comes sooner is refused
// (KIP-368).
const minAgain = time.Second

var (
	errLoginExpired = errors.New("the session has expired, and the client did not re-authenticate: connections.max.reauth.ms")
	errNotYet       = errors.New("a request from a client that has not authenticated")
	errLoginOver    = errors.New("no login is in progress on this connection")
)

// LoggingIn reports whether the client has yet to authenticate or is re-authenticating. Its requests then count for no
// user.
func (c *Conn) LoggingIn() bool { return c.auth != nil && c.auth.stage != stageDone }

// VersionsTold records that ApiVersions was answered without an error, which is allowed once before a login.
func (c *Conn) VersionsTold() {
	if c.LoggingIn() {
		c.auth.stage = stageVersions
	}
}

// admit decides about a frame on a listener with SASL. mine is true if the frame has been dealt with.
func (c *Conn) admit(frame []byte) (mine bool, err error) {
	a := c.auth
	if a.stage == stageDone {
		if again, err := a.next(frame); !again {
			return false, err
		}
		if c.pending.Load() != 0 {
			c.idle.Wait()
		}
		a.stage = stageNew
	}
	if a.stage == stageTokens && a.bare {
		return true, c.bareToken(frame)
	}
	if err := a.allows(frame); err != nil {
		return true, c.holdBack(err)
	}
	return false, nil
}

// next examines a request of a client that has logged in: it may begin a re-authentication, or come too late.
func (a *authentication) next(frame []byte) (again bool, err error) {
	if a.expires.IsZero() {
		return false, nil
	}
	now := time.Now()
	if keyOf(frame) == kmsg.SASLHandshake && now.Sub(a.began) >= minAgain {
		a.began = now
		return true, nil
	}
	if now.After(a.expires) {
		a.counts.Expired.Add(1)
		return false, errLoginExpired
	}
	return false, nil
}

// keyOf returns a request's API key, or -1 if the frame has none.
func keyOf(frame []byte) kmsg.Key {
	if len(frame) < 2 {
		return -1
	}
	return kmsg.Key(int16(binary.BigEndian.Uint16(frame)))
}

// allows refuses a request that must not come at this stage. Requests that are answered nevertheless pass, with failed
// set to the reason.
func (a *authentication) allows(frame []byte) error {
	key := keyOf(frame)
	switch a.stage {
	case stageNew:
		if key == kmsg.ApiVersions && a.first == nil || key == kmsg.SASLHandshake {
			return nil
		}
	case stageVersions:
		if key == kmsg.SASLHandshake {
			return nil
		}
	case stageTokens:
		if key != kmsg.SASLAuthenticate { // it is answered, and closes the connection
			a.failed = fmt.Errorf("%s during a login: %w", kmsg.NameForKey(int16(key)), kerr.IllegalSaslState)
		}
		return nil
	case stageNoMechanism:
		return fmt.Errorf("re-authentication must use the same mechanism, %s", a.first.Name)
	}
	return errNotYet
}

// Handshake chooses the mechanism of a login, as SaslHandshake requests, and returns the enabled mechanisms. After an
// error the connection is closed once the answer has been sent, unless no login is expected at this point.
func (c *Conn) Handshake(mechanism string, version int16) (offered []string, err error) {
	if !c.LoggingIn() {
		return nil, fmt.Errorf("%w: %w", errLoginOver, kerr.IllegalSaslState)
	}
	a := c.auth
	found := a.server.Find(mechanism)
	switch {
	case found == nil:
		a.failed = fmt.Errorf("mechanism %.32q is not one of sasl.enabled.mechanisms: %w", mechanism, kerr.UnsupportedSaslMechanism)
	case a.first != nil && a.first.Name != found.Name:
		a.stage = stageNoMechanism
	default:
		a.stage, a.mechanism, a.exchange, a.bare = stageTokens, found, found.Start(), version == 0
	}
	return a.server.Names(), a.failed
}

// Authenticate takes the next message of a login. After the last one, lifetime is the duration of the session, 0 for no
// limit. The error may be shown to the client; after an error the connection is closed once the answer has been sent,
// unless no login is expected at this point.
func (c *Conn) Authenticate(message []byte, version int16) (answer []byte, lifetime time.Duration, err error) {
	if !c.LoggingIn() || c.auth.stage != stageTokens {
		return nil, 0, fmt.Errorf("%w: %w", errLoginOver, kerr.IllegalSaslState)
	}
	a := c.auth
	if a.mechanism.Waits {
		defer c.watchPeer()()
	}
	answer, err = a.exchange.Step(c.ctx, message)
	if err != nil {
		return nil, 0, c.refuse(err)
	}
	who, proved := a.exchange.Login()
	if !proved {
		return answer, 0, nil
	}
	if a.first != nil && who != (sasl.Login{User: a.who.User, Token: a.who.Token, Expires: who.Expires}) {
		return nil, 0, c.refuse(sasl.Refusal{Reason: "re-authentication must be by the same user"})
	}
	return answer, c.loggedIn(who, version), nil
}

// refuse converts an error to the one that is reported to the client.
func (c *Conn) refuse(err error) error {
	a := c.auth
	reason, told := sasl.Reason(err)
	if !told {
		reason = "wrong credentials for the mechanism " + a.mechanism.Name
	}
	a.failed = fmt.Errorf("SASL login: %w", err)
	return fmt.Errorf("%s: %w", reason, kerr.SaslAuthenticationFailed)
}

// loggedIn completes the login.
func (c *Conn) loggedIn(who sasl.Login, version int16) (lifetime time.Duration) {
	a, now := c.auth, time.Now()
	lifetime, a.expires = sessionEnd(now, a.mechanism.MaxLifetime, who.Expires)
	switch {
	case a.first != nil:
		a.counts.Again.Add(1)
	default:
		a.counts.Succeeded.Add(1)
		if version == 0 {
			a.counts.SucceededUnaware.Add(1)
		}
	}
	a.stage, a.first, a.who, a.exchange = stageDone, a.mechanism, who, nil
	c.Principal, c.TokenAuthenticated = "User:"+who.User, who.Token
	c.frameMax, c.budget = c.server.cfg.RequestMaxBytes, c.server.budget
	c.authenticated()
	if c.log.Logger.IsLevelEnabled(logrus.DebugLevel) {
		c.loginLine(c.log).Debug("logged in")
	}
	return lifetime
}

// sessionEnd returns the duration of a session, in whole milliseconds as clients are told, and when it ends. Both are
// zero if there is no limit.
func sessionEnd(now time.Time, most time.Duration, credential time.Time) (time.Duration, time.Time) {
	if most <= 0 && credential.IsZero() {
		return 0, time.Time{}
	}
	lifetime := most
	if left := credential.Sub(now); !credential.IsZero() && (most <= 0 || left < most) {
		lifetime = left
	}
	lifetime = max(lifetime, 0).Truncate(time.Millisecond)
	return lifetime, now.Add(lifetime)
}

// bareToken takes a message without a request around it, and answers in the same form, which cannot express an error.
func (c *Conn) bareToken(frame []byte) error {
	answer, _, err := c.Authenticate(frame, 0)
	c.in.consume(4 + len(frame))
	if err != nil {
		return c.holdBack(c.auth.failed)
	}
	c.takeOut().Buf = append(binary.BigEndian.AppendUint32(c.out.Buf, uint32(len(answer))), answer...)
	return nil
}

// answerFailed sends the answer to a failed login, after a delay, and ends the connection.
func (c *Conn) answerFailed(w waiting) error {
	why := c.holdBack(c.auth.failed)
	if c.ctx.Err() != nil {
		return why
	}
	if err := c.answerNow(w); err != nil {
		return err
	}
	return why
}

// holdBack delays a failed login, so that guessing takes time. It returns the error that ends the connection.
func (c *Conn) holdBack(why error) error {
	if c.ctx.Err() != nil { // the client has gone, or was sent away
		return context.Cause(c.ctx)
	}
	a := c.auth
	a.failed = why
	counted, line := &a.counts.Failed, "login failed"
	if a.first != nil {
		counted, line = &a.counts.FailedAgain, "a later login failed"
	}
	counted.Add(1)
	if entry, ok := c.server.refused.Line(line, c.log); ok {
		text := why.Error()
		c.loginLine(entry).WithField(logrus.ErrorKey, text[:min(len(text), maxReasonShown)]).Info(line)
	}
	if err := c.flush(); err != nil {
		return err
	}
	if err := await.Pause(c.ctx, a.server.FailureDelay); err != nil {
		return err
	}
	return loginError{why}
}

// loginError ends a connection whose failure has been logged already.
type loginError struct{ error }

func (e loginError) Unwrap() error { return e.error }

// maxUserShown and maxReasonShown bound what a client can write to the log, in bytes: reasons quote what it has sent.
const (
	maxUserShown   = 100
	maxReasonShown = 500
)

func (c *Conn) loginLine(entry *logrus.Entry) *logrus.Entry {
	a := c.auth
	fields := logrus.Fields{logx.Conn: c.id, logx.Listener: c.Listener, logx.Client: c.remoteIP().String()}
	if a.mechanism != nil {
		fields[logx.Mechanism] = a.mechanism.Name
	}
	who := a.who
	if a.exchange != nil {
		who, _ = a.exchange.Login()
	}
	fields[logx.User] = who.User[:min(len(who.User), maxUserShown)]
	return entry.WithFields(fields)
}
