package tools

import (
	"sync"
	"time"
)

// events prints what a tool for system tests does, a JSON object a line. Safe for concurrent use.
type events struct {
	env *Env
	mu  sync.Mutex // guards env.Stdout
}

// print adds the time, in ms, and the event's name in front of its fields. Who reads along sees it at once.
func (e *events) print(name string, fields ...field) error {
	line, err := marshal(append(object{{"timestamp", time.Now().UnixMilli()}, {"name", name}}, fields...))
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.env.println(string(line))
	return e.env.flush()
}

// textOf is a key or value as text, null when there is none.
func textOf(b []byte) any {
	if b == nil {
		return nil
	}
	return string(b)
}
