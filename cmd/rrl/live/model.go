package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// ErrInterrupted is the result of a Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// Run shows the panels on a terminal until its user quits, ctx ends, or each target had Count looks. Then it
// restores the terminal. It returns ErrInterrupted for a Ctrl-C.
func (w *Watch) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	m := newModel(w)
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out),
		tea.WithoutSignalHandler())
	var looks sync.WaitGroup
	looks.Go(func() {
		w.looks(ctx, &m.paused, func(l look) { p.Send(l) })
		p.Quit()
	})
	_, err := p.Run()
	cancel()
	looks.Wait()
	if errors.Is(err, tea.ErrInterrupted) {
		return ErrInterrupted
	}
	return err
}

// A model is the screen.
type model struct {
	where  string
	every  string
	panels []*panel
	paused atomic.Bool

	width, height int
	top           int // the first visible line of the panels
}

func newModel(w *Watch) *model {
	m := &model{where: w.Where, every: words.Span(w.Every.Milliseconds()), width: 80, height: 24}
	for _, t := range w.Targets {
		m.panels = append(m.panels, newPanel(t.Name))
	}
	return m
}

// Init starts nothing: Run sends the looks.
func (*model) Init() tea.Cmd { return nil }

// Update takes a look, a key, or a size of the terminal.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case look:
		m.panels[msg.target].add(msg)
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	}
	return m, nil
}

// key carries out a key.
func (m *model) key(key string) tea.Cmd {
	switch key {
	case "q", "esc":
		return tea.Quit
	case "ctrl+c":
		return tea.Interrupt
	case "p", "space":
		m.paused.Store(!m.paused.Load())
	case "up", "k":
		m.scroll(-1)
	case "down", "j":
		m.scroll(1)
	case "pgup":
		m.scroll(-m.room())
	case "pgdown":
		m.scroll(m.room())
	case "home", "g":
		m.scroll(-len(m.lines()))
	case "end", "G":
		m.scroll(len(m.lines()))
	}
	return nil
}

// room returns how many lines of panels fit between the first line and the last.
func (m *model) room() int { return max(1, m.height-2) }

// scroll moves the panels, to the last line at most.
func (m *model) scroll(lines int) {
	m.top = m.within(m.top + lines)
}

func (m *model) within(top int) int { return max(0, min(top, len(m.lines())-m.room())) }

// lines returns the lines of all panels.
func (m *model) lines() []string {
	var lines []string
	for i, p := range m.panels {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, p.draw(m.width)...)
	}
	return lines
}

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	return v
}

func (m *model) draw() string {
	lines, room := m.lines(), m.room()
	top := m.within(m.top) // there may be fewer lines by now
	seen := lines[top:min(top+room, len(lines))]
	state := "every " + m.every
	if m.paused.Load() {
		state = yellow.Styled("paused")
	}
	screen := []string{m.ends(strong.Styled("rrl watch")+" "+words.Harmless(m.where), state)}
	screen = append(screen, seen...)
	for len(screen) < 1+room {
		screen = append(screen, "")
	}
	position := ""
	if len(lines) > room {
		position = fmt.Sprintf("lines %d-%d of %d", top+1, top+len(seen), len(lines))
	}
	screen = append(screen, faint.Styled(m.ends("q quit  p pause  ↑ ↓ scroll", position)))
	return strings.Join(screen[:min(len(screen), max(1, m.height))], "\n")
}

// ends sets one text at the left end of a line and another at the right. It cuts the left one if both do not
// fit.
func (m *model) ends(left, right string) string {
	if right == "" {
		return cut(left, m.width)
	}
	right = cut(right, m.width)
	left = cut(left, m.width-ansi.StringWidth(right)-1)
	gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(right)
	return left + strings.Repeat(" ", max(0, gap)) + right
}
