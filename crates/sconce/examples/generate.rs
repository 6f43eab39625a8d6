//! Generates tokens with a language model that takes a token and its position and gives the logits of the next.
//!
//! ```sh
//! cargo run --release -p sconce --example generate -- stories.pte 200
//! ```
//!
//! Prints the most likely tokens, beginning with token 1. Sessions share the weights, each has keys and values of its own:
//! two of them generate at the same time on two threads, then another one alone, and all must agree. How many tokens a
//! second the last one makes goes to standard error.
use sconce::{Input, Module, Options, Tensor, Value};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().ok_or("usage: generate MODEL.pte [COUNT] [THREADS]")?;
    let count = arguments.next().map_or(Ok(200), |count| count.parse())?;
    let threads = arguments.next().map_or(Ok(1), |threads| threads.parse())?;
    let module = Options::new().threads(threads).load(model.as_str())?;
    let other = module.clone();
    let beside = std::thread::spawn(move || generate(&other, count).map_err(|error| error.to_string()));
    let (tokens, _) = generate(&module, count)?;
    if beside.join().map_err(|_| "the other thread panicked")??.0 != tokens {
        return Err("two sessions at the same time made different tokens".into());
    }
    let (again, seconds) = generate(&module, count)?;
    if again != tokens {
        return Err("another session made different tokens".into());
    }
    println!("{}", tokens.iter().map(i64::to_string).collect::<Vec<_>>().join(" "));
    eprintln!("{:.1} tokens a second", count.saturating_sub(1) as f64 / seconds);
    Ok(())
}

/// The most likely tokens, one after the other, and the seconds from the first one on.
fn generate(module: &Module, count: usize) -> Result<(Vec<i64>, f64), Box<dyn Error>> {
    let mut session = module.session()?;
    let (mut tokens, mut start) = (vec![1], Instant::now());
    for position in 0..count {
        if position == 1 {
            start = Instant::now();
        }
        let token = Tensor::from_slice(&[*tokens.last().unwrap_or(&1)], &[1])?;
        let position = Tensor::from_slice(&[i64::try_from(position)?], &[1])?;
        let outputs = session.run(&[Input::from(&token), Input::from(&position)])?;
        let Some(Value::Tensor(logits)) = outputs.first() else { return Err("the model gives no tensor".into()) };
        let logits = logits.as_slice::<f32>()?;
        let best = (0..logits.len()).fold(0, |best, next| if logits[next] > logits[best] { next } else { best });
        tokens.push(i64::try_from(best)?);
    }
    Ok((tokens, start.elapsed().as_secs_f64()))
}
