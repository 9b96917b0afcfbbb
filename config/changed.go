package config

import (
	"maps"
	"reflect"
	"slices"
)

// NotDefault lists the settings that differ from their defaults as key=value, sorted by key. The values of passwords
// and of unknown keys, which may contain passwords, are [hidden].
func (b *Broker) NotDefault() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(b.given)) {
		if name == "node.id" { // a synonym of broker.id, which is listed
			continue
		}
		text, k := b.given[name], brokerKey(name)
		if k == nil {
			list = append(list, name+"=[hidden]")
			continue
		}
		if !k.isDefault(text) || k.Name != name { // a listener's own setting is listed even if it equals that of all
			list = append(list, name+"="+k.show(text))
		}
	}
	return list
}

// isDefault reports whether a value equals the default, even if written differently.
func (k *Key) isDefault(text string) bool {
	def, ok := k.Default()
	if !ok {
		return false
	}
	value, err := k.parse(text)
	if err != nil {
		return false
	}
	defaultValue, err := k.parse(def)
	return err == nil && reflect.DeepEqual(value, defaultValue)
}

// changes lists the settings that have changed as key=value, sorted by key, with - before keys that are no longer set.
// Secrets are [hidden].
func changes(old, now *Broker) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(now.given)) {
		if before, was := old.given[name]; was && before == now.given[name] {
			continue
		}
		shown := "[hidden]"
		if k := brokerKey(name); k != nil {
			shown = k.show(now.given[name])
		}
		list = append(list, name+"="+shown)
	}
	for _, name := range slices.Sorted(maps.Keys(old.given)) {
		if _, is := now.given[name]; !is {
			list = append(list, "-"+name)
		}
	}
	return list
}
