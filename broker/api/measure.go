package api

import (
	"reflect"
	"sync"
	"time"

	"barnabas/broker/metrics"
	"barnabas/network"
)

// measured counts a request, whose first half is done at a given time, and, when it is answered, its times and error
// codes.
func (h *Handlers) measured(c *Call, answer network.Answer, done time.Time) network.Answer {
	if h.Metrics == nil {
		return answer
	}
	r := metrics.Request{Key: c.Key, Version: c.Version, FromFollower: c.follower, Size: len(c.Body), Arrived: c.Arrived, Local: done.Sub(c.Arrived), Throttle: c.wait}
	h.Metrics.Received(r, func() metrics.Software { return metrics.Software(c.Conn.Software()) })
	return answer.Then(func(resp network.Response) { // without c, which the next request reuses while this one's answer waits
		r.Total = time.Since(r.Arrived)
		h.Metrics.Answered(r, codesOf(resp))
	})
}

// codesOf counts the error codes in a response, including those of single topics, partitions and so on.
func codesOf(resp network.Response) (found metrics.Codes) {
	if f, ok := resp.(*fetchResponse); ok {
		found.Add(f.code)
		for i := range f.parts {
			found.Add(fetchCode(&f.parts[i]))
		}
		return found
	}
	if v := reflect.ValueOf(resp); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		layoutOf(v.Elem().Type()).count(v.Elem(), &found)
	}
	return found
}

// layout is where a response's struct has error codes: its own field, and lists of structs that contain some.
type layout struct {
	code  int // index of the field ErrorCode, -1 for none
	lists []innerList
}

// innerList is a list of structs with error codes: the index of its field, and the structs' layout.
type innerList struct {
	field   int
	element *layout
}

var layouts sync.Map // reflect.Type to *layout; a cache of facts about types, which never change

func layoutOf(t reflect.Type) *layout {
	if known, ok := layouts.Load(t); ok {
		return known.(*layout)
	}
	l := &layout{code: -1}
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Name == "ErrorCode" && f.Type.Kind() == reflect.Int16:
			l.code = i
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct && f.Type.Elem().NumField() > 0:
			if inner := layoutOf(f.Type.Elem()); inner.code >= 0 || len(inner.lists) > 0 {
				l.lists = append(l.lists, innerList{i, inner})
			}
		}
	}
	layouts.Store(t, l)
	return l
}

func (l *layout) count(v reflect.Value, found *metrics.Codes) {
	if l.code >= 0 {
		found.Add(int16(v.Field(l.code).Int()))
	}
	for _, inner := range l.lists {
		list := v.Field(inner.field)
		for j := range list.Len() {
			inner.element.count(list.Index(j), found)
		}
	}
}
