package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
	"ndrbridge/transform/format"
)

// TestMain runs the bench's own main for its bare clients: in a test they are processes of the
// test's binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleClient {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestSmallBacklog(t *testing.T) {
	slowtest.Skip(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--events", "500", "--runs", "1", "--only", "file,nats+webhook", "--json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), &stdout)
	if len(r.Drains) != 2 || r.Drains[0].Name != "file" || r.Drains[1].Name != "nats+webhook" {
		t.Fatalf("drains %+v", r.Drains)
	}
	for _, d := range r.Drains {
		assert.Equal(t, d.Events, 500, d.Name, "events")
		for side, s := range map[string]sideRow{"the bridge": d.Bridge, "the bare client": d.Bare} {
			assert.True(t, s.Rate.Median > 0, d.Name, side, s)
			assert.True(t, s.CPU.Median > 0, d.Name, side, s)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "ndrbridge-bench-*")); len(left) > 0 {
		t.Errorf("%v was left", left)
	}
}

func TestSmallBacklogInEveryFormat(t *testing.T) {
	slowtest.Skip(t)
	t.Setenv("TMPDIR", t.TempDir())
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--events", "300", "--runs", "1", "--only", "formats", "--json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), &stdout)
	names := format.Names()
	if len(r.Formats) != len(formatDrains)*len(names) {
		t.Fatalf("rows %+v", r.Formats)
	}
	for i, row := range r.Formats {
		if row.Format != names[i%len(names)] || row.Events != 300 || row.Bridge.Rate.Median <= 0 || row.Bridge.CPU.Median <= 0 || row.Cost <= 0 {
			t.Errorf("%+v", row)
		}
	}
}

func TestSmallBacklogWithFollowUps(t *testing.T) {
	slowtest.Skip(t)
	t.Setenv("TMPDIR", t.TempDir())
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--events", "500", "--runs", "1", "--only", "follow-ups", "--json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), &stdout)
	f := r.FollowUps
	if f == nil || f.Events != 500 || f.With.CPU.Median <= 0 || f.Without.CPU.Median <= 0 || f.Cost <= 0 {
		t.Errorf("row %+v", f)
	}
}

func TestLatencyBesideARecordStore(t *testing.T) {
	slowtest.Skip(t)
	t.Setenv("TMPDIR", t.TempDir())
	b := require.Value(newBench(t.Context(), settings{size: 2000}, io.Discard))(t)
	defer b.close()
	for beside, hangs := range map[string]bool{readyRecords: false, deadRecords: true} {
		row := require.Value(b.latency(t.Context(), t.TempDir(), beside, 5))(t)
		assert.True(t, row.Beside == beside && row.Detections == 5 && row.Median > 0 && (row.Hanging > 0) == hangs, row)
	}
}

func TestDeliveredBacklogKeepsTheSizeOfTheState(t *testing.T) {
	slowtest.Skip(t)
	t.Setenv("TMPDIR", t.TempDir())
	b := require.Value(newBench(t.Context(), settings{size: 2000}, io.Discard))(t)
	defer b.close()
	rows := require.Value(b.backlog(t.Context(), 2000, 500))(t)
	if len(rows) != 5 || rows[3].File != rows[4].File {
		t.Errorf("rows %+v", rows)
	}
}

func TestDrainByACluster(t *testing.T) {
	slowtest.Skip(t)
	t.Setenv("TMPDIR", t.TempDir())
	b, err := newBench(t.Context(), settings{events: 500, size: 2000, only: []string{"cluster"}}, io.Discard)
	require.NoError(t, err)
	defer b.close()
	for name, start := range map[string]starter{"a cluster": b.startCluster, "a bridge alone": b.startAlone} {
		f := require.Value(b.receiveCluster(t.Context(), allDrains[2], start))(t)
		if f.Seconds <= 0 || f.CPU <= 0 || (f.servers > 0) != (name == "a cluster") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestTablesContainEveryRow(t *testing.T) {
	r := newReport(settings{runs: 2})
	r.add(allDrains[0], 1234, []figures{{Seconds: 2, CPU: 1.5, Anon: 40 << 20}, {Seconds: 1, CPU: 1}}, []figures{{Seconds: 1, CPU: 0.5}})
	r.addFormats(formatDrains[0], 4711, map[format.Name][]figures{
		format.CloudEvents: {{Seconds: 1, CPU: 2}}, format.OCSF: {{Seconds: 3, CPU: 2.5}},
		format.ECS: {{Seconds: 1, CPU: 3}}, format.CEF: {{Seconds: 1, CPU: 2}}, format.LEEF: {{Seconds: 1, CPU: 2}},
	})
	r.FollowUps = &followUpsRow{Events: 9753, Cost: 1.0625, Types: map[string]int{"detection.noted": 864}}
	r.Latency = []latencyRow{{Beside: deadAppliance, Detections: 77, Median: 1.25}, {Beside: deadRecords, Hanging: 531}}
	r.Records = &recordsRow{Records: 8765, Requests: 99, Rate: 456}
	r.Backlog = []backlogRow{{Run: "after a kill", Events: 7654, Open: 0.25, Ready: 0.75, Seconds: 33.1, Anon: 60 << 20, Standing: 51 << 20, File: 3210 << 20}}
	r.IdlePolls = []idleRow{{Known: 4321, Polls: 9, CPU: 0.75}}
	r.Cluster = &clusterReport{
		Drains: []clusterDrainRow{{title: "to a cluster", Rate: spread{Median: 2468}, Alone: spread{Median: 3579}}}, Latency: latencyRow{Detections: 88, P99: 9.75},
		Idle: clusterIdleRow{Members: 0.031}, Takeover: &clusterTakeoverRow{Appliances: 1357, Anon: []int64{71 << 20, 83 << 20}, Lost: 7.75},
	}
	var b strings.Builder
	require.NoError(t, r.writeTables(&b))
	for _, want := range []string{"Kafka, zstd", "1234", "617 (617–1234)", "1.00 (1.00–1.50)", "0.50", "2.00", "40", deadAppliance, "77", "1.25", "8765", "99", "456", "after a kill", "7654", "0.25", "33.1", "60", "51", "3210", "4321", "0.75",
		"9753", "1.06", "detection.noted:864", deadRecords, "531", "ocsf", "4711", "1570", "2.50", "1.25", "to a cluster", "2468", "3579", "0.69", "88", "9.75", "3.1 %", "1357", "[71 83]", "7.8"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &b)
		}
	}
}

func TestCountDocumentsAcrossBlocks(t *testing.T) {
	body := strings.Repeat(eventStart+`"1.0"}`+strings.Repeat(" ", 997), 300)
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(body), "byte by byte": iotest.OneByteReader(strings.NewReader(body))} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, require.Value(countDocuments(r, eventStart))(t), 300)
		})
	}
}

func TestWrongUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown measurement": {"--only", "kafka,carrier-pigeon"},
		"an unknown flag":        {"--fast"},
		"an argument":            {"kafka"},
		"no events":              {"--events", "0"},
		"a client without file":  {roleClient, "kafka"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, run(args, &stdout, &stderr), 2, "exit code", &stderr)
		})
	}
}
