//! Queries of Nexmark as circuits of the dbsp crate, written by hand: what incremental maintenance costs at its least.
//!
//! dbsp-nexmark --data FOLDER --events N --query q4 [--batch 100000] [--workers 2]
//!
//! FOLDER/{person,auction,bid}/part-*.csv are read into memory first, which is not timed; then batches of events go
//! through the circuit in the order of their times, and the changes of its output are counted, not written. One JSON line.
use anyhow::Result;
use clap::Parser;
use dbsp::operator::{Max, Min};
use dbsp::typed_batch::IndexedZSetReader;
use dbsp::utils::*;
use dbsp::{DBData, OrdIndexedZSet, OrdZSet, RootCircuit, Runtime, Stream, ZWeight};
use std::path::{Path, PathBuf};
use std::time::Instant;

type Rows<T> = Stream<RootCircuit, OrdZSet<T>>;
type Indexed<K, V> = Stream<RootCircuit, OrdIndexedZSet<K, V>>;
/// id, name, email address, credit card, city, state, time (ms), extra
type Person = Tup8<i64, String, String, String, String, String, i64, String>;
/// id, item, description, first bid, reserve, time (ms), end (ms), seller, category, extra
type Auction = Tup10<i64, String, String, i64, i64, i64, i64, i64, i64, String>;
/// auction, bidder, price, channel, url, time (ms), extra
type Bid = Tup7<i64, i64, i64, String, String, i64, String>;

#[derive(Parser)]
struct Args {
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    events: i64,
    #[arg(long)]
    query: String,
    #[arg(long, default_value_t = 100_000)]
    batch: i64,
    #[arg(long, default_value_t = 2)]
    workers: usize,
}

fn main() -> Result<()> {
    run_query(&Args::parse())
}

/// The records of all files of a relation, each with weight 1, the latest first.
fn read<T>(data: &Path, relation: &str, row: impl Fn(&csv::StringRecord) -> T) -> Result<Vec<Tup2<T, ZWeight>>> {
    let mut rows = vec![];
    for part in 0.. {
        let file = data.join(relation).join(format!("part-{part:05}.csv"));
        if !file.exists() {
            break;
        }
        let mut reader = csv::Reader::from_path(file)?;
        let mut record = csv::StringRecord::new();
        while reader.read_record(&mut record)? {
            rows.push(Tup2(row(&record), 1));
        }
    }
    rows.reverse();
    Ok(rows)
}

fn int(record: &csv::StringRecord, at: usize) -> i64 {
    record[at].parse().unwrap()
}

fn text(record: &csv::StringRecord, at: usize) -> String {
    record[at].to_string()
}

fn day(ms: i64) -> i64 {
    ms / 86_400_000
}

/// The rows at the end of `rows` whose time is before `until`.
fn before<T>(rows: &mut Vec<Tup2<T, ZWeight>>, until: i64, time: impl Fn(&T) -> i64) -> Vec<Tup2<T, ZWeight>> {
    let mut taken = vec![];
    while rows.last().is_some_and(|row| time(&row.0) < until) {
        taken.push(rows.pop().unwrap());
    }
    taken
}

/// `used`: the initials of the relations that the circuit reads.
fn run<T: DBData>(
    args: &Args,
    used: &str,
    build: impl Fn(&Rows<Person>, &Rows<Auction>, &Rows<Bid>) -> Rows<T> + Clone + Send + 'static,
) -> Result<()> {
    let (mut circuit, (person, auction, bid, output)) =
        Runtime::init_circuit(args.workers, move |root: &mut RootCircuit| {
            let (persons, person) = root.add_input_zset::<Person>();
            let (auctions, auction) = root.add_input_zset::<Auction>();
            let (bids, bid) = root.add_input_zset::<Bid>();
            let output = build(&persons, &auctions, &bids).accumulate_output();
            Ok((person, auction, bid, output))
        })?;
    let (mut persons, mut auctions, mut bids) = (vec![], vec![], vec![]);
    if used.contains('p') {
        persons = read(&args.data, "person", |r| {
            Tup8(int(r, 0), text(r, 1), text(r, 2), text(r, 3), text(r, 4), text(r, 5), int(r, 6), text(r, 7))
        })?;
    }
    if used.contains('a') {
        auctions = read(&args.data, "auction", |r| {
            let (id, item, description, first, reserve) = (int(r, 0), text(r, 1), text(r, 2), int(r, 3), int(r, 4));
            Tup10(id, item, description, first, reserve, int(r, 5), int(r, 6), int(r, 7), int(r, 8), text(r, 9))
        })?;
    }
    if used.contains('b') {
        bids = read(&args.data, "bid", |r| {
            Tup7(int(r, 0), int(r, 1), int(r, 2), text(r, 3), text(r, 4), int(r, 5), text(r, 6))
        })?;
    }
    let first = [persons.last().map(|r| r.0.6), auctions.last().map(|r| r.0.5), bids.last().map(|r| r.0.5)];
    let mut until = first.into_iter().flatten().min().unwrap_or(0); // events are a millisecond apart
    let (mut steps, mut changes, began) = (0, 0, Instant::now());
    while !(persons.is_empty() && auctions.is_empty() && bids.is_empty()) {
        until += args.batch;
        person.append(&mut before(&mut persons, until, |r| r.6));
        auction.append(&mut before(&mut auctions, until, |r| r.5));
        bid.append(&mut before(&mut bids, until, |r| r.5));
        circuit.transaction()?;
        changes += output.concat().consolidate().iter().count();
        steps += 1;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{{\"engine\": \"dbsp\", \"events\": {}, \"steps\": {steps}, \"changes\": {changes}, \"seconds\": {seconds:.3}, \"per_second\": {:.0}}}",
        args.events,
        args.events as f64 / seconds
    );
    circuit.kill().ok();
    Ok(())
}

fn won(a: &Rows<Auction>, b: &Rows<Bid>) -> Stream<RootCircuit, OrdIndexedZSet<i64, Tup3<i64, i64, i64>>> {
    // auction id -> category, price, dt: cheap form for q4
    a.map_index(|r| (r.0, Tup3(r.5, r.6, r.8)))
        .join_index(&b.map_index(|r| (r.0, Tup2(r.2, r.5))), |id, Tup3(f, t, cat), Tup2(price, dt)| {
            (dt >= f && dt <= t).then_some((*id, Tup3(*cat, *price, *dt)))
        })
}

fn run_query(args: &Args) -> Result<()> {
    match args.query.as_str() {
        "q0" => run(args, "b", |_, _, b| b.map(|r| Tup5(r.0, r.1, r.2, r.5, r.6.clone()))),
        "q3" => run(args, "pa", |p, x, _| {
            let x = x.filter(|r| r.8 == 10).map_index(|r| (r.7, r.0));
            let p = p
                .filter(|r| r.5 == "OR" || r.5 == "ID" || r.5 == "CA")
                .map_index(|r| (r.0, Tup3(r.1.clone(), r.4.clone(), r.5.clone())));
            x.join(&p, |_, id, Tup3(n, c, st)| Tup4(n.clone(), c.clone(), st.clone(), *id))
        }),
        "q4" => run(args, "ab", |_, x, b| {
            let m: Indexed<Tup2<i64, i64>, i64> = won(x, b).map_index(|(id, r)| (Tup2(*id, r.0), r.1)).aggregate(Max);
            m.map_index(|(k, v)| (k.1, *v))
                .aggregate_linear(|v| -> Tup2<ZWeight, ZWeight> { Tup2(*v, 1) })
                .map(|(c, v)| Tup2(*c, v.0 / v.1))
        }),
        "q5" => run(args, "b", |_, _, b| {
            let c = b
                .flat_map_index(|r| {
                    let w = r.5 - r.5 % 2000;
                    (0..5).map(|k| (Tup2(w - 2000 * k, r.0), ())).collect::<Vec<_>>()
                })
                .weighted_count();
            let by: Indexed<i64, Tup2<i64, i64>> = c.map_index(|(k, n)| (k.0, Tup2(*n, k.1)));
            let m: Indexed<i64, i64> = by.map_index(|(k, v)| (*k, v.0)).aggregate(Max);
            by.join_index(&m, |w, v, mx| (v.0 >= *mx).then_some((Tup3(*w, v.1, v.0), ()))).map(|(k, _)| Tup2(k.1, k.2))
        }),
        "q7" => run(args, "b", |_, _, b| {
            let m: Indexed<i64, i64> = b.map_index(|r| (r.5 - r.5 % 10000, r.2)).aggregate(Max);
            b.map_index(|r| (r.2, Tup4(r.0, r.1, r.5, r.6.clone())))
                .join_index(&m.map_index(|(w, p)| (*p, *w)), |p, r, w| {
                    (r.2 >= *w && r.2 <= *w + 10000).then(|| (Tup5(r.0, *p, r.1, r.2, r.3.clone()), ()))
                })
                .map(|(k, _)| k.clone())
        }),
        "q8" => run(args, "pa", |p, x, _| {
            let x = x.map(|r| Tup2(r.7, r.5 - r.5 % 10000)).distinct().map_index(|r| (r.clone(), ()));
            p.map_index(|r| (Tup2(r.0, r.6 - r.6 % 10000), r.1.clone())).join(&x, |k, n, _| Tup3(k.0, n.clone(), k.1))
        }),
        "q9" => run(args, "ab", |_, x, b| {
            let m: Indexed<Auction, Tup4<i64, i64, i64, String>> = x
                .map_index(|r| (r.0, r.clone()))
                .join_index(&b.map_index(|r| (r.0, Tup4(r.2, -r.5, r.1, r.6.clone()))), |_, x, b| {
                    (-b.1 >= x.5 && -b.1 <= x.6).then(|| (x.clone(), b.clone()))
                })
                .aggregate(Max);
            m.map(|(x, b)| Tup2(x.clone(), b.clone()))
        }),
        "q15" => run(args, "b", |_, _, b| {
            let rank = |p: i64| {
                if p < 10_000 {
                    1
                } else if p < 1_000_000 {
                    2
                } else {
                    3
                }
            };
            let n = b.map_index(|r| (day(r.5), r.2)).aggregate_linear(
                move |p| -> Tup4<ZWeight, ZWeight, ZWeight, ZWeight> {
                    let k = rank(*p);
                    Tup4(1, (k == 1) as i64, (k == 2) as i64, (k == 3) as i64)
                },
            );
            let dist = |f: fn(&Bid) -> i64| {
                b.flat_map(move |r| vec![Tup3(day(r.5), 0i64, f(r)), Tup3(day(r.5), rank(r.2), f(r))])
                    .distinct()
                    .map_index(|r| (r.0, r.1))
                    .aggregate_linear(|k| -> Tup4<ZWeight, ZWeight, ZWeight, ZWeight> {
                        Tup4((*k == 0) as i64, (*k == 1) as i64, (*k == 2) as i64, (*k == 3) as i64)
                    })
            };
            n.join_index(&dist(|r| r.1), |d, x, y| Some((*d, Tup2(x.clone(), y.clone()))))
                .join(&dist(|r| r.0), |d, x, z| Tup4(*d, x.0.clone(), x.1.clone(), z.clone()))
        }),
        "q17" => run(args, "b", |_, _, b| {
            let k = b.map_index(|r| (Tup2(r.0, day(r.5)), r.2));
            let n = k.aggregate_linear(|p| -> Tup5<ZWeight, ZWeight, ZWeight, ZWeight, ZWeight> {
                Tup5(1, (*p < 10_000) as i64, (*p >= 10_000 && *p < 1_000_000) as i64, (*p >= 1_000_000) as i64, *p)
            });
            let (mn, mx): (Indexed<Tup2<i64, i64>, i64>, Indexed<Tup2<i64, i64>, i64>) =
                (k.aggregate(Min), k.aggregate(Max));
            n.join_index(&mn, |k, x, m| Some((k.clone(), Tup2(x.clone(), *m))))
                .join(&mx, |k, x, m| Tup9(k.0, k.1, x.0.0, x.0.1, x.0.2, x.0.3, x.1, *m, x.0.4))
        }),
        "q18" => run(args, "b", |_, _, b| {
            let m: Indexed<Tup2<i64, i64>, Tup5<i64, i64, String, String, String>> =
                b.map_index(|r| (Tup2(r.0, r.1), Tup5(r.5, r.2, r.3.clone(), r.4.clone(), r.6.clone()))).aggregate(Max);
            m.map(|(k, v)| Tup7(k.0, k.1, v.1, v.2.clone(), v.3.clone(), v.0, v.4.clone()))
        }),
        "q20" => run(args, "ab", |_, x, b| {
            b.map_index(|r| (r.0, r.clone()))
                .join(&x.filter(|r| r.8 == 10).map_index(|r| (r.0, r.clone())), |_, b, x| Tup2(b.clone(), x.clone()))
        }),
        q => anyhow::bail!("no circuit for {q}"),
    }
}
