package showtest

import (
	"reflect"
	"strings"
)

// Worst is a name of 4 KiB with everything that a terminal or a browser obeys.
var Worst = strings.Repeat(`"><script>alert(1)</script>`+Evil, 4096/(27+len(Evil))+1)[:4096]

// Poison returns a copy of a value in which each text, at any depth, is Worst.
func Poison[V any](v V) V {
	return poisoned(reflect.ValueOf(&v).Elem()).Interface().(V)
}

func poisoned(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	switch v.Kind() {
	case reflect.String:
		c.SetString(Worst)
	case reflect.Pointer:
		if !v.IsNil() {
			c.Set(reflect.New(v.Type().Elem()))
			c.Elem().Set(poisoned(v.Elem()))
		}
	case reflect.Slice:
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			c.Index(i).Set(poisoned(v.Index(i)))
		}
	case reflect.Map:
		c.Set(reflect.MakeMap(v.Type()))
		for k, one := range v.Seq2() {
			c.SetMapIndex(poisoned(k), poisoned(one))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.Field(i).Set(poisoned(v.Field(i)))
			}
		}
	}
	return c
}
