package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Each pattern finds its bad sentences in comments, error texts, Markdown and Lua, and reports the line.
func TestPatternsAreFound(t *testing.T) {
	for sentence, want := range map[string]string{
		"Who waits yet is told that the question is over.":  "clause as subject",
		"What is known of a limiter belongs to its Client.": "clause as subject",
		"It has the line probed after a request.":           "causative",
		"The engine has o told of each call.":               "causative",
		"Micros returns so many us .":                       "hidden number",
		"It asks again after so long.":                      "hidden number",
		"The last batch was one of those.":                  "distant pronoun",
		"The rules of package limit are such.":              "distant pronoun",
		"Permits that nobody holds are unowned.":            "nobody",
		"It is the permit of others.":                       "nobody",
		"The callers run one behind the other.":             "German order",
		"An unused key goes by itself.":                     "German order",
		"The Group has one, too.":                           "German order",
		"The verdict of a call is late.":                    "private word",
		"The caller is told of it.":                         "private word",
	} {
		for name, source := range map[string]string{
			"a.go":  "package a\n\n// A is a.\n//\n// " + sentence + "\nvar a int\n",
			"b.go":  "package a\n\nimport \"errors\"\n\nvar a = errors.New(\"" + sentence + "\")\n",
			"c.md":  "# A page\n```\ncode\n```\n" + sentence + "\n",
			"d.lua": "local a = 1\n\n\n\nreturn a -- " + sentence + "\n",
		} {
			found := findIn(t, name, source)
			there := func(f finding) bool { return f.pattern.name == want && f.line == 5 }
			if !slices.ContainsFunc(found, there) {
				t.Errorf("%s: %q: found %v, want %s", name, sentence, found, want)
			}
		}
	}
}

func TestNamesAndNarrationAreFound(t *testing.T) {
	const source = "package a\n\nfunc f() {\n\tknown := 1\n\t// Loop over all.\n\t_ = known\n}\n"
	found := findIn(t, "a.go", source)
	if len(found) != 2 || found[0].pattern.name != "participle as name" || found[0].line != 4 ||
		found[1].pattern.name != "narration" || found[1].line != 5 {
		t.Errorf("found %v", found)
	}
}

func findIn(t *testing.T, name, source string) []finding {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := findAll(dir)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
