package network

import (
	"bytes"
	"encoding/binary"
	"time"
)

// maxTogether is how many requests are handled together at most: a producer has five in flight by default.
const maxTogether = 16

// group holds the requests that are handled together. It keeps its memory; it is empty as long as there are none.
type group struct {
	frames   [][]byte
	requests []*Request
	refusals int // how often in a row only the first of several could be handled
	alone    int // how many requests are handled without looking at those behind them
}

// learn notes how many requests of a group could be handled together. Where that was only the first again and again, as
// with a producer that wants no answers, requests are looked at together less and less often: each of them would be read
// with every one before it.
func (g *group) learn(handled int) {
	if handled > 1 {
		g.refusals = 0
		return
	}
	g.alone = min(1<<g.refusals, maxTogether) - 1
	g.refusals = min(g.refusals+1, maxTogether)
}

// forget drops what may keep a large read buffer from being freed.
func (g *group) forget() {
	clear(g.frames)
	for _, r := range g.requests {
		r.Body = nil
	}
}

// gather returns the frames of the requests that have arrived whole, from a first one on, and can be handled together.
// Those after the first are charged to the budget, unless that would make them wait.
func (c *Conn) gather(first []byte) ([][]byte, Route) {
	if c.group.alone > 0 {
		c.group.alone--
		return nil, Route{}
	}
	rest := c.in.unread()[4+len(first):]
	if !alike(rest, first) || c.auth != nil && !c.auth.standing() {
		return nil, Route{}
	}
	route, err := c.route(int16(binary.BigEndian.Uint16(first)), int16(binary.BigEndian.Uint16(first[2:])))
	if err != nil || route.Together == nil {
		return nil, Route{}
	}
	frames := append(c.group.frames[:0], first)
	for len(frames) < maxTogether && alike(rest, first) {
		size := int(int32(binary.BigEndian.Uint32(rest)))
		if size > int(c.frameMax) || size > len(rest)-4 || !c.budget.tryTake(size) {
			break
		}
		frames = append(frames, rest[4:4+size])
		rest = rest[4+size:]
	}
	c.group.frames = frames
	return frames, route
}

// alike reports whether rest begins with a frame of at least eight bytes that has the API key and version of first.
func alike(rest, first []byte) bool {
	return len(rest) >= 12 && len(first) >= 8 && int32(binary.BigEndian.Uint32(rest)) >= 8 && bytes.Equal(rest[4:8], first[:4])
}

// standing reports whether any request may come: the client has logged in, and its login has not expired.
func (a *authentication) standing() bool {
	return a.stage == stageDone && a.failed == nil && (a.expires.IsZero() || time.Now().Before(a.expires))
}

// handleTogether runs the first half of the first ones of several requests, and sends their answers or leaves them to
// the writer.
func (c *Conn) handleTogether(frames [][]byte, route Route) error {
	requests, err := c.parseAll(frames)
	c.req.Key, c.req.Version = c.group.requests[0].Key, c.group.requests[0].Version // which they share; for the line about the connection's end
	var answers []Answer
	if len(requests) > 0 {
		var failed error
		if answers, failed = route.Together(c.ctx, requests); failed != nil || len(answers) < len(requests) {
			err = failed // the broken one comes later
		}
	}
	for i, frame := range frames {
		c.budget.release(len(frame))
		if i < len(answers) {
			c.traffic.received(4 + len(frame))
			c.in.consume(4 + len(frame))
		}
	}
	c.group.forget()
	c.group.learn(len(answers))
	if c.auth == nil {
		c.in.useUsualBuffers()
	}
	for i, answer := range answers {
		if answer.hang {
			return errHungUp
		}
		if err := c.answerInTurn(waiting{answer, requests[i].Correlation, route.FlexibleResponse}, route); err != nil {
			return err
		}
	}
	return err
}

// parseAll parses the headers of frames, up to the first that is broken.
func (c *Conn) parseAll(frames [][]byte) (requests []*Request, err error) {
	now := time.Now()
	c.active.Store(int64(now.Sub(c.server.started)))
	for len(c.group.requests) < len(frames) {
		c.group.requests = append(c.group.requests, new(Request))
	}
	for i, frame := range frames {
		r := c.group.requests[i]
		r.Conn, r.Arrived = c, now
		if _, err := r.parseHeader(frame, c.route); err != nil {
			return c.group.requests[:i], err
		}
	}
	return c.group.requests[:len(frames)], nil
}
