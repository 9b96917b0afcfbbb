package config

import (
	"maps"
	"slices"
)

// Source says where a value comes from; the numbers are those of DescribeConfigs.
type Source int8

// The sources.
const (
	SourceTopic         Source = 1
	SourceDynamicBroker Source = 2
	SourceDynamicAll    Source = 3
	SourceFile          Source = 4
	SourceDefault       Source = 5
	SourceLogger        Source = 6
)

// Entry is a setting as returned by DescribeConfigs.
type Entry struct {
	Name          string
	Value         *string // nil: null, or not shown
	Source        Source
	ReadOnly      bool
	Sensitive     bool
	Type          Type
	Synonyms      []Synonym // in order of precedence
	Documentation string
}

// Synonym is a place where an entry's value is set or could be set.
type Synonym struct {
	Name   string
	Value  *string
	Source Source
}

// DescribeTopic returns a topic's settings: those named or, without names, all. Unknown names are left out.
func (d *Dynamic) DescribeTopic(overrides map[string]string, names []string) ([]Entry, error) {
	now := d.state.Load()
	t, err := now.merged.Topic(overrides)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, k := range topicSchema.keys {
		if wanted(k.Name, names) {
			entries = append(entries, now.topicEntry(t, k))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if topicKey(name) == nil && wanted(name, names) {
			entries = append(entries, Entry{Name: name, Source: SourceTopic, Sensitive: true,
				Synonyms: []Synonym{{Name: name, Source: SourceTopic}}})
		}
	}
	return entries, nil
}

func wanted(name string, names []string) bool {
	return len(names) == 0 || slices.Contains(names, name)
}

func (l *layers) topicEntry(t *Topic, k *Key) Entry {
	value := t.shownValue(k.Name)
	e := Entry{Name: k.Name, Value: &value, Type: k.Type, Documentation: k.Doc}
	if t.Set(k.Name) {
		e.Synonyms = append(e.Synonyms, Synonym{Name: k.Name, Value: &value, Source: SourceTopic})
	}
	if from, ok := topicSynonyms[k.Name]; ok {
		e.Synonyms = append(e.Synonyms, l.synonyms(from)...)
	}
	e.Source = strongest(e.Synonyms)
	return e
}

func strongest(synonyms []Synonym) Source {
	if len(synonyms) == 0 {
		return SourceDefault
	}
	return synonyms[0].Source
}

// DescribeBroker returns this broker's settings: those named or, without names, all. Hidden keys and keys of plug-ins
// are included only if they are set.
func (d *Dynamic) DescribeBroker(names []string) []Entry {
	now := d.state.Load()
	var entries []Entry
	for _, k := range brokerSchema.keys {
		if wanted(k.Name, names) && (brokerSchema.origins[k.Name] == public || now.merged.Set(k.Name)) {
			entries = append(entries, now.brokerEntry(k.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.merged.given)) {
		if brokerSchema.byName[name] == nil && wanted(name, names) {
			entries = append(entries, now.brokerEntry(name))
		}
	}
	return entries
}

// DescribeCluster returns the settings that are set for all brokers.
func (d *Dynamic) DescribeCluster(names []string) []Entry {
	now := d.state.Load()
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(now.cluster)) {
		if !wanted(name, names) {
			continue
		}
		e := now.brokerEntry(name)
		e.Synonyms = slices.DeleteFunc(e.Synonyms, func(s Synonym) bool { return s.Source != SourceDynamicAll })
		e.Source = strongest(e.Synonyms)
		if !e.Sensitive {
			value := now.clusterText[name]
			e.Value = &value
		}
		entries = append(entries, e)
	}
	return entries
}

func (l *layers) brokerEntry(name string) Entry {
	e := Entry{Name: name, Sensitive: true, Synonyms: l.synonyms(name)}
	exact := brokerSchema.byName[name]
	if k := brokerKey(name); k != nil {
		e.Type, e.Sensitive, e.Documentation = k.Type, k.Sensitive(), k.Doc
	}
	e.ReadOnly = exact == nil || exact.Update == ReadOnly || brokerSchema.origins[name] == dynamic
	e.Source = strongest(e.Synonyms)
	if !e.Sensitive {
		e.Value = l.merged.shown(name)
	}
	return e
}

// Text returns a setting's value as it is described, empty if it is null.
func (b *Broker) Text(name string) string {
	if text := b.shown(name); text != nil {
		return *text
	}
	return ""
}

// shown returns a setting's value as it is described.
func (b *Broker) shown(name string) *string {
	text, given := b.given[name]
	if value, ok := b.values[name]; ok {
		if value == nil {
			return nil
		}
		text, given = format(value), true
	}
	if !given {
		return nil
	}
	return &text
}

// synonyms lists where a setting is set, under each of its forms, in order of precedence (ConfigHelper.configSynonyms,
// 3.9): this broker, all brokers, the file, the default. Keys that take precedence over name itself are not its
// synonyms.
func (l *layers) synonyms(name string) []Synonym {
	forms := unitSynonyms(name)
	if base, ok := listenerBase(name); ok {
		forms = []string{name, base}
	}
	k := brokerKey(name)
	secret := k == nil || k.Sensitive()
	var found []Synonym
	add := func(form, value string, source Source) {
		if len(found) == 0 && form != name {
			return
		}
		s := Synonym{Name: form, Source: source}
		if !secret {
			s.Value = &value
		}
		found = append(found, s)
	}
	for _, layer := range []struct {
		settings map[string]string
		source   Source
	}{{l.brokerText, SourceDynamicBroker}, {l.clusterText, SourceDynamicAll}, {l.file, SourceFile}} {
		for _, form := range forms {
			if value, ok := layer.settings[form]; ok {
				add(form, value, layer.source)
			}
		}
	}
	for _, form := range forms {
		if k := brokerSchema.byName[form]; k != nil {
			if value, ok := k.Default(); ok && brokerSchema.origins[form] != dynamic {
				add(form, value, SourceDefault)
			}
		}
	}
	return found
}
