package config

import (
	"maps"
	"reflect"
	"slices"
)

// NotDefault lists the settings, key=value by key, that were set to something else than their default. Values of passwords,
// and of keys that nobody knows, which may hold some, are [hidden].
func (b *Broker) NotDefault() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(b.given)) {
		if name == "node.id" { // another name of broker.id, which stands beside it
			continue
		}
		text, k := b.given[name], BrokerKey(name)
		if k == nil {
			list = append(list, name+"=[hidden]")
			continue
		}
		if !k.isDefault(text) || k.Name != name { // a listener's own setting counts though it says what all have
			list = append(list, name+"="+k.show(text))
		}
	}
	return list
}

// isDefault tells whether a value is the default, be it written in another way.
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

// changes lists, key=value by key, what is set in another way than before, with - before the keys that are not set any more.
// Secrets are [hidden].
func changes(old, now *Broker) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(now.given)) {
		if before, was := old.given[name]; was && before == now.given[name] {
			continue
		}
		shown := "[hidden]"
		if k := BrokerKey(name); k != nil {
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
