use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn id(cluster: &str, name: &str) -> PodId {
    PodId { cluster: cluster.to_owned(), name: name.to_owned() }
}

/// A pod that has been ready for a long time and requests a whole processor.
fn pod(cluster: &str, name: &str) -> Pod {
    let request = |name: &str| Container {
        name: name.to_owned(),
        requests: [("cpu".to_owned(), "500m".parse().unwrap())].into(),
    };
    Pod {
        id: id(cluster, name),
        phase: "Running".to_owned(),
        is_leaving: false,
        started: Some(at(-9000)),
        ready: Some(Ready { status: "True".to_owned(), since: at(-8000) }),
        containers: vec![request("app"), request("proxy")],
    }
}

fn pods(count: usize) -> Vec<Pod> {
    (0..count).map(|n| pod("m1", &format!("p{n}"))).collect()
}

/// Samples of the first pods.
fn samples(values: &[i64]) -> Samples {
    let sample = |(n, value): (usize, &i64)| {
        let sample = Sample { value: *value, at: at(-10), window: Duration::from_secs(30) };
        (id("m1", &format!("p{n}")), sample)
    };
    values.iter().enumerate().map(sample).collect()
}

/// A workload whose clusters can all be asked.
fn situation<'a>(options: &'a AutoscalerOptions, pods: &'a [Pod]) -> Situation<'a> {
    let count = i32::try_from(pods.len()).unwrap();
    Situation { options, now: at(0), pods, current: count, assigned: count, running: count }
}

/// Replicas for a percentage of the requested processor.
fn percent(pods: &[Pod], used: &[i64], target: i32) -> i32 {
    let options = AutoscalerOptions::default();
    let situation = situation(&options, pods);
    situation.for_utilization(&samples(used), "cpu", None, target).unwrap().replicas
}

#[test]
fn pods_grow_and_shrink_with_their_use() {
    let cases: [(&[i64], i32, i32); 6] = [
        (&[300, 500, 700], 30, 5),
        (&[1000, 1000, 1000], 50, 6),
        (&[100, 100, 100], 50, 1),
        // Within a tenth of the target nothing moves.
        (&[300, 310, 320], 30, 3),
        (&[460, 460, 460], 50, 3),
        (&[440, 440, 440], 50, 3),
    ];
    for (used, target, expected) in cases {
        assert_eq!(percent(&pods(3), used, target), expected, "{used:?} of {target} %");
    }
    let options = AutoscalerOptions::default();
    let three = pods(3);
    let proposal =
        situation(&options, &three).for_utilization(&samples(&[300, 500, 700]), "cpu", None, 30);
    assert_eq!(proposal, Ok(Proposal { replicas: 5, average: 500, percent: Some(50) }));
    let wide = AutoscalerOptions { tolerance: 0.7, ..options };
    let tolerated =
        situation(&wide, &three).for_utilization(&samples(&[300, 500, 700]), "cpu", None, 30);
    assert_eq!(tolerated.unwrap().replicas, 3);
}

#[test]
fn pods_nobody_measured_hold_up_every_move() {
    let four = pods(4);
    assert_eq!(percent(&four, &[1000, 1000, 1000], 50), 6, "they use nothing when growing");
    assert_eq!(percent(&four, &[100, 100, 100], 50), 3, "and all of it when shrinking");
    assert_eq!(percent(&four, &[600, 600, 600], 50), 4, "no move in the other direction");
    assert_eq!(
        percent(&four, &[1200, 1200, 1200], 150),
        4,
        "and what is aimed for, if that is more"
    );
}

#[test]
fn pods_that_are_coming_or_going_count_as_little_as_possible() {
    let mut three = pods(3);
    three[2].phase = "Pending".to_owned();
    assert_eq!(percent(&three, &[1000, 1000, 1000], 50), 4, "two busy pods and one idle");
    assert_eq!(percent(&three, &[100, 100], 50), 1, "two idle pods");
    let mut three = pods(3);
    three[1].phase = "Failed".to_owned();
    three[2].is_leaving = true;
    assert_eq!(percent(&three, &[1000, 10, 10], 50), 2, "one busy pod");
}

#[test]
fn the_processor_time_of_starting_pods_says_nothing() {
    let options = AutoscalerOptions::default();
    let is_starting = |started: i64, status: &str, since: i64, sampled: i64| {
        let mut pod = pod("m1", "p0");
        pod.started = Some(at(started));
        pod.ready = Some(Ready { status: status.to_owned(), since: at(since) });
        let sample = Sample { value: 1, at: at(sampled), window: Duration::from_secs(30) };
        situation(&options, &[]).is_starting(&pod, &sample)
    };
    assert!(is_starting(-60, "False", -50, 0), "not ready in its first five minutes");
    assert!(is_starting(-60, "True", -20, 0), "measured while it was not ready");
    assert!(!is_starting(-60, "True", -40, 0), "measured since it is ready");
    assert!(is_starting(-600, "False", -580, 0), "never ready");
    assert!(!is_starting(-600, "False", -100, 0), "was ready, and works hard now");
    assert!(!is_starting(-600, "True", -20, 0), "old enough");
    let mut unknown = pod("m1", "p0");
    unknown.ready = None;
    let sample = Sample { value: 1, at: at(0), window: Duration::ZERO };
    assert!(situation(&options, &[]).is_starting(&unknown, &sample));
    let memory = situation(&options, std::slice::from_ref(&unknown));
    let measured = memory.for_average(&samples(&[4000]), "memory", 1000);
    assert_eq!(measured.unwrap().replicas, 4, "memory is used from the beginning");
}

#[test]
fn what_ready_clusters_need_is_translated_to_all_clusters() {
    let options = AutoscalerOptions::default();
    let five = pods(5);
    // Ten replicas are asked for; the clusters that can be asked have five of them.
    let half = Situation { current: 10, ..situation(&options, &five) };
    let used = samples(&[800, 800, 800, 800, 800]);
    assert_eq!(half.for_utilization(&used, "cpu", None, 40).unwrap().replicas, 20);
    assert_eq!(half.for_utilization(&used, "cpu", None, 80).unwrap().replicas, 10);
    assert_eq!(half.for_average(&used, "cpu", 400).unwrap().replicas, 20);
    assert_eq!(half.for_value(4000, 2000).unwrap(), 20);
    let missing = samples(&[1000, 1000, 1000, 1000]);
    assert_eq!(half.for_average(&missing, "", 400).unwrap().replicas, 20);
}

/// Row 15 of the quirk register: decided for the right arithmetic.
#[test]
fn a_value_that_pods_share_is_translated_once() {
    let options = AutoscalerOptions::default();
    let five = pods(5);
    let half = Situation { current: 10, ..situation(&options, &five) };
    let twice = half.for_shared_value(20_000, 2000);
    assert_eq!(twice, Proposal { replicas: 20, average: 4000, percent: None });
    assert_eq!(half.for_shared_value(10_500, 2000).replicas, 10, "tolerated");
    assert_eq!(half.for_shared_value(2000, 2000).replicas, 2);
}

/// Row 15 of the quirk register: decided for the right arithmetic.
#[test]
fn pods_of_the_same_name_in_two_clusters_are_two_pods() {
    let options = AutoscalerOptions::default();
    let two = [pod("m1", "web-0"), pod("m2", "web-0")];
    let sample = |value| Sample { value, at: at(-10), window: Duration::from_secs(30) };
    let samples =
        Samples::from([(id("m1", "web-0"), sample(1800)), (id("m2", "web-0"), sample(200))]);
    let situation = situation(&options, &two);
    let proposal = situation.for_average(&samples, "cpu", 500).unwrap();
    assert_eq!(proposal, Proposal { replicas: 4, average: 1000, percent: None });
    let proposal = situation.for_utilization(&samples, "cpu", None, 50).unwrap();
    assert_eq!(proposal, Proposal { replicas: 4, average: 1000, percent: Some(100) });
}

#[test]
fn a_value_of_an_object_multiplies_the_pods_that_are_ready() {
    let options = AutoscalerOptions::default();
    let mut three = pods(3);
    assert_eq!(situation(&options, &three).for_value(6000, 2000), Ok(9));
    assert_eq!(situation(&options, &three).for_value(2100, 2000), Ok(3));
    three[0].ready = None;
    assert_eq!(situation(&options, &three).for_value(6000, 2000), Ok(6));
    let nothing = Situation { current: 3, ..situation(&options, &[]) };
    assert_eq!(nothing.for_value(6000, 2000), Err(Problem::NoPods));
    assert_eq!(situation(&options, &[]).for_value(6000, 2000), Ok(3), "from nothing");
}

#[test]
fn one_container_is_compared_with_its_own_request() {
    let options = AutoscalerOptions::default();
    let two = pods(2);
    let situation = situation(&options, &two);
    let used = samples(&[500, 500]);
    let of = |container| situation.for_utilization(&used, "cpu", container, 50).unwrap().percent;
    assert_eq!((of(None), of(Some("app"))), (Some(50), Some(100)));
}

#[test]
fn what_cannot_be_counted_says_why() {
    let options = AutoscalerOptions::default();
    let nobody = situation(&options, &[]);
    let used = samples(&[500, 500]);
    assert_eq!(nobody.for_average(&used, "", 100), Err(Problem::NoPods));
    let two = pods(2);
    let two = situation(&options, &two);
    assert_eq!(two.for_average(&Samples::new(), "", 100), Err(Problem::NoSamples));
    let memory = two.for_utilization(&used, "memory", None, 50).unwrap_err();
    assert!(matches!(memory, Problem::NoRequest { .. }), "{memory}");
    assert!(memory.to_string().contains("container app of pod p0 requests no memory"), "{memory}");
    let mut strangers = pods(2);
    strangers.iter_mut().for_each(|pod| pod.id.cluster = "m2".to_owned());
    let strangers = situation(&options, &strangers).for_utilization(&used, "cpu", None, 50);
    assert_eq!(strangers, Err(Problem::Strangers));
}
