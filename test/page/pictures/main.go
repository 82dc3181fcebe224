//go:build e2e

// Command pictures takes the pictures of the documents: from a demo, the status page, cards in a
// chat and a ticket; from the golden files of presets, how each chat shows follow-ups. It needs chromium and a font
// with emoji. make pictures runs it.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"ndrbridge/internal/admin"
)

func main() {
	to := flag.String("to", "docs/pictures", "the folder of the pictures")
	after := flag.Duration("after", 4*time.Minute, "how long the demo runs before they are taken")
	cards := flag.Bool("cards", false, "take the pictures of cards alone, without a demo")
	flag.Parse()
	if err := takeAll(context.Background(), *to, *after, *cards); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func takeAll(ctx context.Context, to string, after time.Duration, cards bool) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	browser, closeBrowser, err := startBrowser(ctx)
	if err != nil {
		return err
	}
	defer closeBrowser()
	if err := shootCards(browser, to); err != nil || cards {
		return err
	}
	return take(ctx, browser, to, after)
}

// take takes the pictures of a demo.
func take(ctx, browser context.Context, to string, after time.Duration) (err error) {
	d, err := startDemo(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	// The pictures show a sink that fails.
	if err := d.addSink(ctx, `  - {name: siem, webhook: {preset: splunk_hec, url: "http://127.0.0.1:8088", key: demo}}`); err != nil {
		return err
	}
	time.Sleep(after)
	if err := shoot(browser, d.bridge, ":root:has(#sinks .chart .line[d]):has(#events > li)", 1280, 1180, filepath.Join(to, "status-page.png")); err != nil {
		return err
	}
	if err := shoot(browser, d.ticket, "article:nth-of-type(3)", 760, 700, filepath.Join(to, "ticket.png")); err != nil {
		return err
	}
	return shoot(browser, d.chat, "article", 720, 640, filepath.Join(to, "chat.png"))
}

// demo is a running ndrdemo.
type demo struct {
	cmd                          *exec.Cmd
	folder                       string // of its binary
	bridge, config, chat, ticket string
}

// The lines with which the demo begins.
var (
	bridgeLine = regexp.MustCompile(`^bridge +(http://\S+)`)
	configLine = regexp.MustCompile(`^configuration +(\S+)`)
	chatLine   = regexp.MustCompile(`^chat, Slack +(http://\S+)`)
	ticketLine = regexp.MustCompile(`^tickets, Jira +(http://\S+)`)
)

// startDemo starts a demo and waits for its addresses.
func startDemo(ctx context.Context) (*demo, error) {
	folder, err := os.MkdirTemp("", "pictures-")
	if err != nil {
		return nil, err
	}
	d := &demo{folder: folder}
	program := filepath.Join(folder, "ndrdemo")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/ndrdemo").CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the demo: %w\n%s", err, out), os.RemoveAll(folder))
	}
	d.cmd = exec.CommandContext(ctx, program)
	d.cmd.Stderr = os.Stderr
	out, err := d.cmd.StdoutPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the demo: %w", err), os.RemoveAll(folder))
	}
	lines := bufio.NewScanner(out)
	for d.bridge == "" || d.config == "" || d.chat == "" || d.ticket == "" {
		if !lines.Scan() {
			return nil, errors.Join(errors.New("the demo ended before it printed its addresses"), d.stop())
		}
		for line, value := range map[*regexp.Regexp]*string{bridgeLine: &d.bridge, configLine: &d.config, chatLine: &d.chat, ticketLine: &d.ticket} {
			if found := line.FindStringSubmatch(lines.Text()); found != nil {
				*value = found[1]
			}
		}
	}
	go func() { // until the demo ends
		for lines.Scan() {
		}
	}()
	return d, nil
}

// addSink adds a sink to the configuration of the demo's bridge.
func (d *demo) addSink(ctx context.Context, sink string) error {
	text, err := os.ReadFile(d.config)
	if err != nil {
		return err
	}
	changed := strings.Replace(string(text), "sinks:\n", "sinks:\n"+sink+"\n", 1)
	if err := os.WriteFile(d.config, []byte(changed), 0o600); err != nil {
		return err
	}
	client, err := admin.NewClient(d.bridge, "")
	if err == nil {
		_, err = client.Reload(ctx)
	}
	return err
}

// stop kills the demo and deletes its files.
func (d *demo) stop() error {
	killed := d.cmd.Process.Kill()
	_ = d.cmd.Wait() // it was killed
	err := errors.Join(killed, os.RemoveAll(d.folder))
	if d.config != "" {
		err = errors.Join(err, os.RemoveAll(filepath.Dir(d.config)))
	}
	return err
}

// startBrowser starts a browser that prefers light colours.
func startBrowser(ctx context.Context) (browser context.Context, closeBrowser func(), err error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, nil, fmt.Errorf("install chromium: %w", err)
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(program)}
	for _, name := range []string{"headless", "no-sandbox", "disable-gpu", "hide-scrollbars", "no-first-run", "disable-background-networking", "disable-dev-shm-usage"} {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, stop := chromedp.NewExecAllocator(ctx, options...)
	browser, closeTab := chromedp.NewContext(allocator)
	return browser, func() { closeTab(); stop() }, nil
}

// shoot writes a picture of a page, once it has an element that a selector matches.
func shoot(browser context.Context, url, selector string, width, height int64, path string) error {
	_, err := chromedp.Call(browser, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
	if err != nil {
		return fmt.Errorf("set the size of the window: %w", err)
	}
	if err := chromedp.Do(browser, chromedp.Navigate(url)); err != nil {
		return fmt.Errorf("open %s: %w", url, err)
	}
	found := fmt.Sprintf("document.querySelector(%q) !== null", selector)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		is, err := chromedp.Run(browser, chromedp.Evaluate[bool](found))
		if err != nil {
			return fmt.Errorf("look at %s: %w", url, err)
		}
		if is {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s has no %s", url, selector)
		}
	}
	picture, err := chromedp.Call(browser, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	if err != nil {
		return fmt.Errorf("take a picture of %s: %w", url, err)
	}
	return os.WriteFile(path, picture.Data, 0o644)
}
