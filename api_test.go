package rratelimiter_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter"
)

// No method of a Client has a type that users cannot name.
func TestClientShowsNoInternalTypes(t *testing.T) {
	client := reflect.TypeFor[*rratelimiter.Client]()
	for i := range client.NumMethod() {
		m := client.Method(i)
		types := []reflect.Type{}
		for j := range m.Type.NumIn() {
			types = append(types, m.Type.In(j))
		}
		for j := range m.Type.NumOut() {
			types = append(types, m.Type.Out(j))
		}
		for _, typ := range types {
			if strings.Contains(typ.PkgPath(), "/internal/") {
				t.Errorf("%s has a %v", m.Name, typ)
			}
		}
	}
}
