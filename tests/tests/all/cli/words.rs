//! Words of the program: reports with the documented fields, man pages, completions.

use std::process::Command;

use brindle_tests::tools::{self, or_skip};

use super::*;

/// The fields of an object, told as the document lists them.
#[track_caller]
fn fields(object: &Value, expected: &str) {
    let mut found: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected: Vec<&str> = expected.split_whitespace().collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{object}");
}

const ARRAY: &str = "uuid name homehost metadata level layout chunk size component_size raid_devices state \
                     consistency_policy events created updated resync_offset reshape missing limits devices bitmap";
const DEVICE: &str = "path number role state events size data_offset super_offset uuid flags";

#[test]
fn reports_have_the_fields_of_the_document() {
    let set = Set::sparse(4, 4 * MIB);
    let created = set.create("-l 5 -c 64K -x 1 -N a --json").json();
    fields(&created, ARRAY);
    fields(&created["devices"][0], DEVICE);
    assert_eq!(created["devices"][3]["state"], "spare");
    assert!(created["devices"][3]["role"].is_null());
    assert_eq!(created["chunk"], 65536);
    assert_eq!(created["layout"], "left-symmetric");
    let detail = set.detail();
    fields(&detail, &format!("{ARRAY} left_out holds"));
    assert_eq!(detail["uuid"], created["uuid"]);

    let examined = set.run("examine --json").json();
    fields(&examined, "members problem");
    fields(&examined["members"][0], "path size error blank superblock in_array bitmap signatures");
    let superblock = "metadata array_uuid device_uuid name homehost level layout chunk raid_devices \
                      array_size component_size data_offset data_size super_offset bitmap_offset bad_block_log \
                      created updated events device_number role state resync_offset recovery_offset reshape features \
                      flags checksum array_state";
    fields(&examined["members"][0]["superblock"], superblock);
    fields(&examined["members"][0]["superblock"]["bad_block_log"], "offset size");
    fields(&examined["members"][0]["signatures"][0], "kind offset label uuid");
    assert_eq!(examined["members"][3]["superblock"]["role"], "spare");
    assert_eq!(examined["members"][0]["superblock"]["array_state"], "AAA");

    flip(&set.members[2], created["devices"][2]["data_offset"].as_u64().unwrap());
    let checked = set.run("check --json").ended(3).report();
    fields(
        &checked,
        "uuid level checked mismatch_cnt unlocated places unverified unreadable bad_places resynced",
    );
    fields(&checked["places"][0], "role kind device offset length located");
}

const EVENT: &str =
    "number at kind array role member operation offset error text range array_range mismatch_cnt";

#[test]
fn a_server_reports_the_fields_of_the_document() {
    let set = Set::raid5(3);
    let server = set.serve("");
    fields(&server.said, "event name nbd iscsi pid");
    let status = server.status();
    fields(
        &status,
        "name pid folder nbd iscsi array arrays left_out connections requests bytes_read bytes_written errors events last_action \
         stale_for spare_group exported limits clients refused read_latency write_latency",
    );
    fields(&status["array"], &format!("{ARRAY} sync exposed max_speed min_speed redundancy_left"));
    fields(&status["array"]["devices"][0], "role path state failure bad_blocks flags slower read_errors io");
    let io = "reads writes flushes other bytes_read bytes_written errors corrected slow given_up late in_flight oldest \
              read_latency write_latency";
    let counters = &status["array"]["devices"][0]["io"];
    fields(counters, io);
    assert!(counters["reads"].as_u64() > Some(0) && counters["errors"] == 0, "{counters}");
    assert!(status["array"]["sync"].is_null() && status["stale_for"].is_null());
    let runtime = set.runtime();
    let all = program::brindle(["status", "--json", "--runtime-dir", name(&runtime)]).json();
    assert_eq!(all[0]["pid"], status["pid"]);
    let failed = server.ask("fail", &["0", "--json"]).json();
    let device = &failed["array"]["devices"][0];
    assert_eq!(device["state"], "failed", "{failed}");
    fields(&device["failure"], "at operation offset error why");
    assert_eq!(
        (&device["failure"]["operation"], &device["failure"]["why"]),
        (&"command".into(), &"by command".into())
    );
    fields(&failed["events"][0], EVENT);
    assert_eq!(failed["events"][0]["kind"], "member-failed", "{failed}");
    assert_eq!(state(&failed["array"]), ["clean", "degraded"], "{failed}");
    let text = server.ask("status", &[]).ok().text();
    assert!(text.contains("failed") && text.contains("degraded"), "{text}");
    let stopped = server.ask("stop", &["--json"]).json();
    assert_eq!(stopped, serde_json::json!({"name": "a", "stopped": true}));
}

#[test]
fn every_command_has_a_man_page() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("man");
    program::brindle(["man", name(&folder)]).ok();
    let help = program::brindle(["--help"]).ok().text();
    let commands = "create examine detail advise cat check repair serve assemble attach detach mount umount daemon config reload incremental update zero-superblock report status fail add replace remove flag grow action wait scrub watch console metrics \
                    monitor export unexport disconnect stop bench calibrate simulate reliability sweep plan pool volume demo completions man";
    for command in commands.split(' ') {
        assert!(help.contains(&format!("\n  {command} ")), "{command} is not in\n{help}");
        let page = std::fs::read_to_string(folder.join(format!("brindle-{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{page}");
        for section in ["EXAMPLES", "EXIT STATUS", "FILES", "ENVIRONMENT", "SEE ALSO"] {
            assert_eq!(page.matches(&format!(".SH \"{section}\"\n")).count(), 1, "{section}: {page}");
        }
        assert!(page.contains("BRINDLE_LOG") && page.contains("mdadm(8)"), "{page}");
        let long = program::brindle([command, "--help"]).ok().text();
        assert!(long.contains(&format!("Examples:\n  brindle {command}")), "{long}");
    }
    for group in ["Arrays:", "Rescue:", "Choose:"] {
        assert!(help.contains(&format!("\n{group}\n  ")) && help.contains("\n  > brindle create "), "{help}");
    }
    let below = [
        "pool-create",
        "pool-status",
        "pool-list",
        "pool-iostat",
        "pool-history",
        "pool-export",
        "pool-import",
        "pool-scrub",
        "pool-offline",
        "pool-online",
        "pool-replace",
        "pool-add",
        "pool-attach",
        "pool-detach",
        "pool-destroy",
        "volume-create",
        "volume-list",
        "pool-rename",
        "volume-rename",
        "volume-destroy",
    ];
    below.iter().for_each(|page| assert!(folder.join(format!("brindle-{page}.1")).exists(), "{page}"));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), commands.split(' ').count() + 1 + below.len());
}

#[test]
fn completions_are_scripts_of_their_shell() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = program::brindle(["completions", shell]).ok().text();
        assert!(script.contains("brindle") && script.contains("examine"), "{shell}");
        let path = dir.path().join(shell);
        std::fs::write(&path, script).unwrap();
        let Some(program) = or_skip(tools::find(shell)) else { continue };
        let ran = Ran::of({
            let mut command = Command::new(program);
            command.arg("-n").arg(&path);
            command
        });
        ran.ok();
    }
}

#[test]
fn wrong_words_end_with_2() {
    for args in [&["dance"][..], &["create"], &["create", "-l", "5"], &["serve", "--nbd", "nowhere", "x"]] {
        let ran = program::brindle(args).ended(2);
        assert!(ran.err.starts_with("error: "), "{}", ran.err);
    }
}
