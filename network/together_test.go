package network

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	"barnabas/internal/testlog"
	"barnabas/internal/testwait"
	"barnabas/network/sasl"
)

// joiner is a Dispatcher with one API more, whose requests are handled together unless they must be the first ("first"):
// they are answered with their body, at once or from the writer ("later"), not at all ("silent"), or end the connection
// ("broken", "hang up").
type joiner struct {
	*echo
	mu     sync.Mutex
	groups []int
	bodies []weak.Pointer[byte]
}

const joined = 120

func (j *joiner) Route(c *Conn, key, version int16) (Route, error) {
	if key == joined {
		return Route{FlexibleRequest: version > 0, Overlap: true, Together: j.together}, nil
	}
	return j.echo.Route(c, key, version)
}

func (j *joiner) Handle(ctx context.Context, r *Request) (Answer, error) {
	if r.Key != joined {
		return j.echo.Handle(ctx, r)
	}
	answers, err := j.together(ctx, []*Request{r})
	if err != nil {
		return Answer{}, err
	}
	return answers[0], nil
}

func (j *joiner) together(_ context.Context, requests []*Request) (answers []Answer, err error) {
	j.mu.Lock()
	j.groups = append(j.groups, len(requests))
	j.mu.Unlock()
	for i, r := range requests {
		body := text(r.Body)
		j.saw(r.Body)
		if body == "first" && i > 0 {
			return answers, nil
		}
		switch body {
		case "later":
			answers = append(answers, Later(func(context.Context) Response { return body }))
		case "silent":
			answers = append(answers, Answer{})
		case "hang up":
			answers = append(answers, HangUp())
		case "broken":
			return answers, errors.New("cannot be read")
		default:
			answers = append(answers, Ready(body))
		}
	}
	return answers, nil
}

// handled returns how many requests were handled at a time.
func (j *joiner) handled() []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.groups)
}

func (j *joiner) saw(body []byte) {
	if len(body) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.bodies = append(j.bodies, weak.Make(&body[0]))
}

// held returns how many requests that were seen are still in memory.
func (j *joiner) held() (n int) {
	runtime.GC()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range j.bodies {
		if b.Value() != nil {
			n++
		}
	}
	return n
}

// largest returns how many requests were handled together at most.
func (j *joiner) largest() int { return slices.Max(j.handled()) }

func joinerServer(t *testing.T, cfg Config) (*joiner, *Server, io.ReadWriteCloser) {
	t.Helper()
	j := &joiner{echo: &echo{gates: make(chan chan struct{}, 10)}}
	if cfg.RequestMaxBytes == 0 {
		cfg.RequestMaxBytes = 1 << 20
	}
	s := NewServer(cfg, j, testlog.Quiet())
	addr, err := s.Bind(Listener{Name: "PLAINTEXT", Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve()
	t.Cleanup(s.Close)
	return j, s, dial(t, addr)
}

// sendAll sends requests at once; a body of "alone" goes to another API.
func sendAll(t *testing.T, c io.Writer, version int16, bodies []string) {
	t.Helper()
	var all []byte
	for i, body := range bodies {
		key := int16(joined)
		if body == "alone" {
			key = echoNow
		}
		all = append(all, frame(key, version, int32(i), body)...)
	}
	if _, err := c.Write(all); err != nil {
		t.Fatal(err)
	}
}

// Requests that arrive together are handled together, and answered in order.
func TestTogether(t *testing.T) {
	for _, version := range []int16{0, 1} {
		j, s, c := joinerServer(t, Config{QueuedMaxBytes: 1 << 20})
		bodies := []string{"a", "b", "later", "c", "silent", "alone", "d", "later", "first", "alone", "first", "e", "f"}
		sendAll(t, c, version, bodies)
		for i, body := range bodies {
			if body == "alone" && version > 0 {
				body = "\x00alone"
			}
			if body != "silent" {
				expect(t, c, int32(i), body)
			}
		}
		if n := j.largest(); n != 5 {
			t.Errorf("version %d: %d requests were handled together, want 5", version, n)
		}
		testwait.Until(t, "the budget is returned", func() bool {
			used, _ := s.Budget()
			return used == 0
		})
	}
}

// A group has an end, and what it takes from the budget as well.
func TestTogetherIsBounded(t *testing.T) {
	bodies := slices.Repeat([]string{"0123456789"}, 50)
	for want, cfg := range map[int]Config{maxTogether: {}, 3: {QueuedMaxBytes: 80}} {
		j, _, c := joinerServer(t, cfg)
		sendAll(t, c, 0, bodies)
		for i, body := range bodies {
			expect(t, c, int32(i), body)
		}
		if n := j.largest(); n != want {
			t.Errorf("%d requests were handled together, want %d", n, want)
		}
	}
}

// Requests that cannot be handled together are not read again and again, and those that can still are.
func TestTogetherInVain(t *testing.T) {
	j, _, c := joinerServer(t, Config{})
	const each = 100
	bodies := slices.Concat([]string{"a", "b"}, slices.Repeat([]string{"first"}, each), slices.Repeat([]string{"c"}, each))
	sendAll(t, c, 0, bodies)
	for i, body := range bodies {
		expect(t, c, int32(i), body)
	}
	groups := j.handled()
	read, most := 0, 0
	for _, n := range groups {
		read += n
		most = max(most, n)
	}
	if read > 2*len(bodies)+4*maxTogether {
		t.Errorf("%d requests were read %d times", len(bodies), read)
	}
	if most != maxTogether {
		t.Errorf("%d requests were handled together, want %d", most, maxTogether)
	}
	if calls := len(groups); calls > 2*each-each/2 {
		t.Errorf("%d calls for %d requests, half of which can be handled together", calls, len(bodies))
	}
}

// A request that ends the connection does not keep those before it from being answered.
func TestTogetherUntilTheConnectionEnds(t *testing.T) {
	for _, last := range []string{"broken", "hang up"} {
		_, s, c := joinerServer(t, Config{QueuedMaxBytes: 1 << 20})
		sendAll(t, c, 0, []string{"a", "later", "b", last, "c"})
		for i, body := range []string{"a", "later", "b"} {
			expect(t, c, int32(i), body)
		}
		if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
			t.Errorf("%s: %q follows, %v", last, rest, err)
		}
		testwait.Until(t, "the budget is returned", func() bool {
			used, _ := s.Budget()
			return used == 0
		})
	}
}

// The same with a header that cannot be read.
func TestTogetherWithABrokenHeader(t *testing.T) {
	_, _, c := joinerServer(t, Config{})
	bad := frame(joined, 1, 9, "")
	bad[len(bad)-6] = 200 // number of tagged fields
	all := append(append(frame(joined, 1, 1, "a"), frame(joined, 1, 2, "b")...), bad...)
	_, _ = c.Write(all)
	expect(t, c, 1, "a")
	expect(t, c, 2, "b")
	if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
		t.Errorf("%q follows, %v", rest, err)
	}
}

// Requests of clients that have not logged in are not handled together, since each may change what the next may do.
func TestTogetherAfterLoginOnly(t *testing.T) {
	j := &joiner{echo: &echo{}}
	_, addr := saslListener(t, j, sasl.Server{})
	c := dial(t, addr)
	sendAll(t, c, 0, []string{"a", "b"})
	if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
		t.Errorf("answered before the login: %q, %v", rest, err)
	}
	if groups := j.handled(); len(groups) > 0 {
		t.Errorf("handled before the login: %v", groups)
	}
}

// An idle connection does not hold the buffer of a large request that others came behind.
func TestTogetherHoldsNoBuffer(t *testing.T) {
	for _, behind := range [][]string{nil, {"a"}, {"a", "b"}} {
		j, _, c := joinerServer(t, Config{RequestMaxBytes: 32 << 20})
		bodies := append([]string{strings.Repeat("v", 8<<20)}, behind...)
		sendAll(t, c, 0, bodies)
		for i, body := range bodies {
			expect(t, c, int32(i), body)
		}
		testwait.Until(t, "the buffer is given up", func() bool { return j.held() == 0 })
	}
}
