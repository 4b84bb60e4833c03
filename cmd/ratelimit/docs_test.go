package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/cmd/ratelimit/rls"
)

// The files of the guide are valid, and it names every variable that is read and every flag.
func TestTheGuide(t *testing.T) {
	page, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Error("the guide has no file")
	}
	for _, block := range blocks {
		if _, err := rls.Parse([]rls.File{{Name: "docs/envoy.md", Data: block[1]}}, false); err != nil {
			t.Error(err)
		}
	}
	source, err := os.ReadFile("settings.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`env:"([A-Z_]+)"|Var\(&s\.\w+, `+
		`"(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		name := "`" + found[1]
		if found[2] != "" {
			name = "`--" + found[2]
		}
		if !strings.Contains(string(page), name) {
			t.Errorf("the guide does not name %s`", name)
		}
	}
}

// The specs that the table of the reference's cases names exist.
func TestTheCasesOfTheReferenceHaveSpecs(t *testing.T) {
	page, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	var specs strings.Builder
	for _, dir := range []string{".", "rls"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if strings.HasSuffix(entry.Name(), "_test.go") {
				text, err := os.ReadFile(dir + "/" + entry.Name())
				if err != nil {
					t.Fatal(err)
				}
				specs.Write(text)
			}
		}
	}
	names := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(names) < 10 {
		t.Errorf("the guide names %d specs", len(names))
	}
	for _, name := range names {
		if !strings.Contains(specs.String(), "func "+name[1]+"(") {
			t.Errorf("the guide names %s, which is not there", name[1])
		}
	}
}
