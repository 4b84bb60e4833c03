package rratelimiter_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// pages returns README.md and the pages of docs/: their text by their path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("docs/*.md")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	texts := map[string]string{}
	for _, file := range append(files, "README.md", "CHANGELOG.md") {
		texts[file] = read(t, file)
	}
	return texts
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The Go blocks of README.md and docs/ are pieces of the examples, which are compiled and run. A whole
// program is a file of the examples with another name for its package and its function. Examples of other
// modules are but text here; their own tests run them.
func TestBlocks(t *testing.T) {
	var files []string
	const dirs = ". limit limit/fixedwindow limit/limittest limit/rules rlock httplimit grpclimit " +
		"otellimit cmd/rrl/web limit/tokenbucket"
	for dir := range strings.FieldsSeq(dirs) {
		found, err := filepath.Glob(filepath.Join(dir, "example*_test.go"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no examples: %v", dir, err)
		}
		files = append(files, found...)
	}
	outputs := regexp.MustCompile(`(?m)^\t// Output:.*\n(\t//.*\n)*`)
	var examples strings.Builder
	for _, file := range files {
		examples.WriteString(outputs.ReplaceAllString(read(t, file), ""))
	}
	program := strings.NewReplacer(
		"package main", "package rratelimiter_test", "func main()", "func Example()")
	flat := func(code string) string {
		return strings.Join(strings.Fields(strings.ReplaceAll(code, "exampleAddr", `"localhost:6379"`)), " ")
	}
	code, blocks := flat(examples.String()), 0
	for file, text := range pages(t) {
		for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1) {
			blocks++
			if !strings.Contains(code, flat(program.Replace(block[1]))) {
				t.Errorf("%s: in none of the examples:\n%s", file, block[1])
			}
		}
	}
	if blocks < 7 {
		t.Errorf("%d Go blocks", blocks)
	}
}

// Relative links lead to a file, and those with a fragment to a heading.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for file, text := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			path, fragment, _ := strings.Cut(found[1], "#")
			target := filepath.Join(filepath.Dir(file), path)
			if path == "" {
				target = file
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere: %v", file, found[0], err)
				continue
			}
			if fragment != "" && !slices.Contains(anchors(read(t, target)), fragment) {
				t.Errorf("%s: %s: no such heading", file, found[0])
			}
		}
	}
}

// anchors returns the fragments by which the headings of a page are known.
func anchors(text string) (all []string) {
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := dropped.ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// Commands and targets in the pages exist.
func TestCommands(t *testing.T) {
	makefile := read(t, "Makefile")
	for file, text := range pages(t) {
		target := regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)")
		for _, found := range target.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+found[1]+":") {
				t.Errorf("%s: make %s is not in the Makefile", file, found[1])
			}
		}
	}
	for _, command := range []string{"go run ./cmd/rrl compare --rate 5/1s", "make test"} {
		if !strings.Contains(read(t, "README.md"), "\n"+command+" ") {
			t.Errorf("README.md does not begin a line with %s", command)
		}
	}
}

// The tests that rlock/testdata/redisson.txt names are there, and a case without any says why.
func TestLockCases(t *testing.T) {
	files, _ := filepath.Glob("rlock/*_test.go")
	var specs strings.Builder
	for _, file := range files {
		specs.WriteString(read(t, file))
	}
	cases := 0
	for line := range strings.Lines(read(t, "rlock/testdata/redisson.txt")) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || strings.HasPrefix(cells[2], "none: ") {
			continue
		}
		cases++
		named := regexp.MustCompile(`Test\w+`).FindAllString(cells[2], -1)
		if len(named) == 0 {
			t.Errorf("neither a test nor a reason: %s", line)
		}
		for _, name := range named {
			if !strings.Contains(specs.String(), "\nfunc "+name+"(") {
				t.Errorf("%s: no such test: %s", cells[0], name)
			}
		}
	}
	if cases < 52 {
		t.Errorf("%d cases", cases)
	}
}

// Each fault of Redisson on the page is named by a spec, and README.md counts them.
func TestEachFaultHasASpec(t *testing.T) {
	var specs strings.Builder
	comments := regexp.MustCompile(`(?m)^#.*$`) // the head of a table names the first and the last
	for _, glob := range []string{
		"test/*/*_test.go", "test/states/testdata/*.txt", "compat_test/*_test.go", "rlock/*_test.go",
		"rlock/testdata/*.txt",
	} {
		files, _ := filepath.Glob(glob)
		for _, file := range files {
			specs.WriteString(comments.ReplaceAllString(read(t, file), ""))
		}
	}
	const page, most = "docs/faults.md", 34
	faults := regexp.MustCompile(`(?m)^\| ([BHI]\d+[a-e]?) \|`).FindAllStringSubmatch(read(t, page), -1)
	if len(faults) != most {
		t.Errorf("%s has %d faults", page, len(faults))
	}
	if count := fmt.Sprintf("lists %d Redisson bugs", most); !strings.Contains(read(t, "README.md"), count) {
		t.Errorf("README.md has not: %s", count)
	}
	for _, fault := range faults {
		if !regexp.MustCompile(`\b` + fault[1] + `\b`).MatchString(specs.String()) {
			t.Errorf("%s: no spec names %s", page, fault[1])
		}
	}
}

// The measured figures of the README are those of the last make bench.
func TestFigures(t *testing.T) {
	readme, measured := read(t, "README.md"), read(t, "docs/benchmarks.md")
	for what, where := range map[string]struct {
		table  string
		column int
	}{
		"p50 in µs, 1 caller":              {"callers", 4},
		"calls/s, 64 callers of one limit": {"callers", 2},
	} {
		cells := tableRow(readme, what)
		for i, contestant := range []string{"this library", "redis_rate"} {
			row := tableRow(section(t, measured, where.table), contestant)
			if len(cells) <= i+1 || len(row) <= where.column {
				t.Fatalf("%s, %s: no figure", what, contestant)
			}
			if figure := strings.Trim(cells[i+1], "*"); figure != strings.Trim(row[where.column], "*") {
				t.Errorf("README.md: %s, %s: %s, docs/benchmarks.md has %s",
					what, contestant, figure, row[where.column])
			}
		}
	}
}

// So are those of many users.
func TestFiguresOfManyUsers(t *testing.T) {
	readme, measured := read(t, "README.md"), read(t, "docs/benchmarks.md")
	for ours, theirs := range map[string][2]string{
		"`tokenbucket.Bucket`": {"tokenbucket", "tokenbucket"},
		"redis_rate":           {"redis_rate", "redis_rate"},
		"`fixedwindow.Window`": {"fixedwindow", "fixedwindow"},
		"ulule/limiter":        {"ulule/limiter", "ulule/limiter"},
		"`client.Keyed`":       {"this library", "this library, 1 grant"},
	} {
		users := append(tableRow(section(t, measured, "users"), theirs[0]), make([]string, 5)...)
		memory := append(tableRow(section(t, measured, "memory"), theirs[1]), "")
		got := append(tableRow(readme, ours), make([]string, 4)...)[1:4]
		want := []string{users[1], users[2], memory[1]}
		plain := func(cells []string) string { return strings.ReplaceAll(strings.Join(cells, " "), "*", "") }
		if plain(got) != plain(want) {
			t.Errorf("README.md, %s: %v, docs/benchmarks.md has %v", ours, got, want)
		}
	}
}

// section returns what follows the mark of a table of docs/benchmarks.md.
func section(t *testing.T, page, table string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "<!--"+table+"-->\n")
	if !found {
		t.Fatalf("docs/benchmarks.md has no table %s", table)
	}
	return rest
}

// The pages agree on the memory of a user, which is that of the last make bench, within a hundredth.
func TestMemoryOfAUser(t *testing.T) {
	memory, users := section(t, read(t, "docs/benchmarks.md"), "memory"), read(t, "docs/users.md")
	operations := tableRow(read(t, "docs/operations.md"), "a limiter in Redis")[1]
	for measured, said := range map[string]string{
		"this library, 1 grant": tableRow(users, "1")[1], "10 grants": tableRow(users, "10")[1],
		"100 grants": tableRow(users, "100")[1], "1,000 grants": tableRow(users, "1,000")[1],
	} {
		number, _, _ := strings.Cut(said, " ")
		is, err := strconv.Atoi(strings.ReplaceAll(tableRow(memory, measured)[1], ",", ""))
		says, err2 := strconv.Atoi(strings.ReplaceAll(number, ",", ""))
		if err != nil || err2 != nil || 100*max(is-says, says-is) > is {
			t.Errorf("docs/users.md says %q for %s, docs/benchmarks.md %d", said, measured, is)
		}
		if !strings.Contains(operations, number) && says < 1000 {
			t.Errorf("docs/operations.md does not say %s: %s", number, operations)
		}
	}
}

// tableRow returns the cells of the first table row that begins with a name.
func tableRow(text, name string) []string {
	_, row, _ := strings.Cut(text, "\n| "+name+" |")
	row, _, _ = strings.Cut(row, "\n")
	cells := strings.Split(name+" |"+row, "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// As docs/tokens.md says of its gateway, the estimate counts if the answer breaks off or the user leaves, and
// questions pass while Redis is silent.
func TestTheGatewayWithoutAUsage(t *testing.T) {
	server, silent := miniredis.RunT(t), redistest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	user, leave := context.WithCancel(t.Context())
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if question, _ := io.ReadAll(r.Body); string(question) == "left" {
			leave()
			<-r.Context().Done()
		}
		fmt.Fprintln(w, "42.")
	}))
	defer model.Close()
	gatewayOn := func(addr string) *gateway {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		client := rratelimiter.New(rdb)
		t.Cleanup(func() { _, _ = client.Close(), rdb.Close() })
		return newGateway(client, model.URL)
	}
	tokens := gatewayOn(server.Addr()).tokens.For("ann")
	for _, c := range []struct{ addr, question, want string }{
		{server.Addr(), "broken off", "200 42. 1498 <nil>"},
		{silent.Addr().String(), "silent", "200 42. 1498 <nil>"},
		{server.Addr(), "left", "502 the model does not answer 997 <nil>"},
	} {
		request := httptest.NewRequestWithContext(user, http.MethodPost, "/", strings.NewReader(c.question))
		request.Header.Set("User", "ann")
		response := httptest.NewRecorder()
		gatewayOn(c.addr).ServeHTTP(response, request)
		left, err := tokens.AvailablePermits(t.Context())
		got := fmt.Sprint(response.Code, " ", strings.TrimSpace(response.Body.String()), " ", left, " ", err)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.question, got, c.want)
		}
	}
}

// Every folder of the root that has Go is named in docs/architecture.md.
func TestArchitectureNamesEveryRoom(t *testing.T) {
	page := read(t, "docs/architecture.md")
	files, _ := filepath.Glob("*/*.go")
	deeper, _ := filepath.Glob("*/*/*.go")
	for _, file := range append(files, deeper...) {
		room, _, _ := strings.Cut(filepath.ToSlash(file), "/")
		if !strings.Contains(page, "`"+room) {
			t.Errorf("docs/architecture.md does not name %s, which has %s", room, file)
		}
	}
}

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

// withExamples is a test run with a server for the examples.
type withExamples struct{ m *testing.M }

// exampleAddr is where the Redis of the examples listens. In the blocks of the pages it is
// localhost:6379 (TestBlocks).
var exampleAddr string

func (w withExamples) Run() int {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	exampleAddr = server.Addr()
	code := w.m.Run()
	server.Close()
	return code
}

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(withExamples{m}) }
