//! What the pictures show.

use super::{Item, Picture, Tone};

pub(super) fn all() -> Vec<Picture> {
    vec![flow(), quick_start(), policies(), two_clusters(), three_centres()]
}

fn a_box(at: (i32, i32, i32, i32), tone: Tone, title: &'static str, below: &'static str) -> Item {
    Item::Box { at, tone, title, below }
}

fn arrow(through: &[(i32, i32)], tone: Tone, word: &'static str) -> Item {
    Item::Arrow { through: through.to_vec(), tone, word, dashed: false }
}

fn dashed(through: &[(i32, i32)], tone: Tone, word: &'static str) -> Item {
    Item::Arrow { through: through.to_vec(), tone, word, dashed: true }
}

fn flow() -> Picture {
    let steps = [
        ("kubectl apply", "template and policies"),
        ("detector", "claims by policy"),
        ("scheduler", "chooses clusters, replicas"),
        ("binding", "renders, applies overrides"),
        ("execution", "a lane per member"),
    ];
    let words = ["template", "ResourceBinding", "clusters in it", "Works"];
    let mut items = Vec::new();
    for (place, (title, below)) in (0..).zip(steps) {
        let tone = if place == 0 { Tone::Written } else { Tone::Plane };
        items.push(a_box((20 + place * 165, 60, 140, 60), tone, title, below));
    }
    for (place, word) in (0..).zip(words) {
        let left = 160 + place * 165;
        items.push(arrow(&[(left, 90), (left + 23, 90)], Tone::Plane, ""));
        items.push(Item::Words { at: (left - 28, 52), text: word });
    }
    for (place, name) in (0..).zip(["member1", "member2", "member3"]) {
        let left = 350 + place * 165;
        items.push(a_box((left, 200, 140, 50), Tone::Member, name, "pods run here"));
        items.push(arrow(&[(750, 120), (left + 70, 198)], Tone::Member, ""));
    }
    items.push(dashed(
        &[(350, 225), (90, 225), (90, 122)],
        Tone::Lost,
        "status: member, Work, binding, template",
    ));
    Picture {
        file: "flow.svg",
        title: "From a template to the members, and its state back",
        size: (860, 275),
        items,
    }
}

fn quick_start() -> Picture {
    let items = vec![
        a_box((300, 50, 200, 56), Tone::Plane, "karmada up", "API, store, controllers, scheduler"),
        a_box((30, 50, 170, 56), Tone::Written, "kubectl, karmadactl", "Deployment and policies"),
        arrow(&[(200, 78), (298, 78)], Tone::Plane, "https"),
        a_box((60, 190, 190, 60), Tone::Lost, "member1, site a", "not reachable"),
        a_box((305, 190, 190, 60), Tone::Member, "member2, site b", "shop 2/2"),
        a_box((550, 190, 190, 60), Tone::Member, "member3", "nginx 2/2"),
        dashed(&[(350, 106), (160, 188)], Tone::Lost, ""),
        arrow(&[(400, 106), (400, 188)], Tone::Member, ""),
        arrow(&[(450, 106), (640, 188)], Tone::Member, ""),
        arrow(&[(155, 250), (155, 280), (400, 280), (400, 252)], Tone::Member, ""),
        Item::Words { at: (190, 298), text: "label serving taken from member1: shop moves" },
    ];
    Picture {
        file: "quick-start.svg",
        title: "One control plane, three members",
        size: (780, 310),
        items,
    }
}

fn policies() -> Picture {
    let items = vec![
        a_box((20, 60, 150, 60), Tone::Written, "Deployment", "what runs"),
        a_box((20, 150, 150, 60), Tone::Written, "PropagationPolicy", "where, how many"),
        a_box((20, 240, 150, 60), Tone::Written, "OverridePolicy", "what differs"),
        a_box((260, 105, 150, 60), Tone::Plane, "ResourceBinding", "clusters and replicas"),
        arrow(&[(170, 90), (258, 125)], Tone::Plane, ""),
        arrow(&[(170, 180), (258, 145)], Tone::Plane, "claims"),
        a_box((500, 50, 150, 60), Tone::Plane, "Work", "karmada-es-member1"),
        a_box((500, 160, 150, 60), Tone::Plane, "Work", "karmada-es-member2"),
        arrow(&[(410, 125), (498, 85)], Tone::Plane, ""),
        arrow(&[(410, 145), (498, 185)], Tone::Plane, ""),
        arrow(
            &[(170, 270), (575, 270), (575, 222)],
            Tone::Written,
            "changes what one cluster gets",
        ),
        a_box((720, 50, 120, 60), Tone::Member, "member1", "as written"),
        a_box((720, 160, 120, 60), Tone::Member, "member2", "changed"),
        arrow(&[(650, 80), (718, 80)], Tone::Member, ""),
        arrow(&[(650, 190), (718, 190)], Tone::Member, ""),
    ];
    Picture { file: "policies.svg", title: "Which policy decides what", size: (860, 320), items }
}

fn two_clusters() -> Picture {
    let items = vec![
        a_box((300, 45, 180, 50), Tone::Plane, "control plane", "anywhere that reaches both"),
        Item::Frame { at: (30, 125, 720, 130), tone: Tone::Member, name: "region: city" },
        a_box((70, 160, 270, 70), Tone::Member, "member1, zone east", "store 3/3, DATABASE=main"),
        a_box((440, 160, 270, 70), Tone::Member, "member2, zone west", "store 3/3, DATABASE=west"),
        arrow(&[(360, 95), (205, 158)], Tone::Plane, ""),
        arrow(&[(420, 95), (575, 158)], Tone::Plane, ""),
        a_box((300, 285, 180, 45), Tone::Written, "load balancer or DNS", ""),
        arrow(&[(330, 285), (205, 232)], Tone::Written, ""),
        arrow(&[(450, 285), (575, 232)], Tone::Written, ""),
    ];
    Picture {
        file: "two-clusters.svg",
        title: "Both centres serve; either can carry the load alone",
        size: (780, 345),
        items,
    }
}

fn three_centres() -> Picture {
    let items = vec![
        a_box((350, 45, 180, 50), Tone::Plane, "control plane", "clusterAffinities in order"),
        Item::Frame { at: (30, 125, 500, 130), tone: Tone::Member, name: "city-a: primary" },
        a_box((55, 160, 215, 70), Tone::Member, "member1, zone a1", "bank 3/3"),
        a_box((290, 160, 215, 70), Tone::Member, "member2, zone a2", "bank 3/3"),
        Item::Frame { at: (590, 125, 260, 130), tone: Tone::Lost, name: "city-b: worst-day" },
        a_box((612, 160, 215, 70), Tone::Lost, "member3, zone b1", "empty, or a small copy"),
        arrow(&[(400, 95), (165, 158)], Tone::Plane, ""),
        arrow(&[(430, 95), (400, 158)], Tone::Plane, ""),
        dashed(&[(490, 95), (715, 158)], Tone::Lost, "when no cluster of city-a is left"),
    ];
    Picture {
        file: "three-centres.svg",
        title: "Two centres serve, the third is for the worst day",
        size: (880, 275),
        items,
    }
}
