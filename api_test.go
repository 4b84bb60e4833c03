package rratelimiter_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter"
)

// No method of a Client has a type that users cannot name.
func TestClientShowsNoInternalTypes(t *testing.T) {
	client := reflect.TypeFor[*rratelimiter.Client]()
	for m := range client.Methods() {
		for _, typ := range slices.AppendSeq(slices.Collect(m.Type.Ins()), m.Type.Outs()) {
			if strings.Contains(typ.PkgPath(), "/internal/") {
				t.Errorf("%s has a %v", m.Name, typ)
			}
		}
	}
}
