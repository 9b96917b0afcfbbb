package tools

import (
	"sync"
	"time"
)

// events prints the events of a tool for system tests, one JSON object per line. Safe for concurrent use.
type events struct {
	env      *Env
	printing sync.Mutex // guards env.Stdout
}

// print adds the time, in ms, and the event's name before its fields, and flushes the output.
func (e *events) print(name string, fields ...field) error {
	line, err := marshal(append(object{{"timestamp", time.Now().UnixMilli()}, {"name", name}}, fields...))
	if err != nil {
		return err
	}
	e.printing.Lock()
	defer e.printing.Unlock()
	e.env.println(string(line))
	return e.env.flush()
}

// textOf returns a key or value as text, null if there is none.
func textOf(b []byte) any {
	if b == nil {
		return nil
	}
	return string(b)
}
