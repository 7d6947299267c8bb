package config

import (
	"maps"
	"reflect"
	"slices"
)

// Diff names the keys whose values differ, with the names of their tables before them; a list of tables is one key.
func Diff(a, b *Config) []string {
	keys := diff("", reflect.ValueOf(*a), reflect.ValueOf(*b))
	slices.Sort(keys)
	return keys
}

func diff(name string, a, b reflect.Value) (keys []string) {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !a.Type().Field(i).IsExported() {
				continue // it is not in the file
			}
			keys = append(keys, diff(join(name, a.Type().Field(i).Tag.Get("toml")), a.Field(i), b.Field(i))...)
		}
		return keys
	case reflect.Map:
		names := map[string]bool{}
		for _, m := range []reflect.Value{a, b} {
			for _, k := range m.MapKeys() {
				names[k.String()] = true
			}
		}
		for k := range maps.Keys(names) {
			x, y := a.MapIndex(reflect.ValueOf(k)), b.MapIndex(reflect.ValueOf(k))
			if x.IsValid() != y.IsValid() || x.IsValid() && x.Interface() != y.Interface() {
				keys = append(keys, join(name, k))
			}
		}
		return keys
	}
	if !reflect.DeepEqual(a.Interface(), b.Interface()) {
		keys = append(keys, name)
	}
	return keys
}

func join(table, key string) string {
	if table == "" {
		return key
	}
	return table + "." + key
}
