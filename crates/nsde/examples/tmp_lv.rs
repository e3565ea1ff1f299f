use nsde::simulate::*; use nsde::train::*; use nsde::*;
use std::time::Instant;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let get = |k: &str, d: &str| args.iter().find_map(|a| a.strip_prefix(&format!("{k}=")).map(String::from)).unwrap_or(d.into());
    let t0 = Instant::now();
    let (data, refused) = lotka_volterra(Recording { paths: 128, rows: 200, spacing: 0.05, substeps: 500, seed: 1 });
    eprintln!("simulated in {:?}, refused {refused}", t0.elapsed());
    let mut train = data.clone();
    for s in &mut train.series { s.times.truncate(100); s.values.truncate(200); }
    let scaled = get("scale","1")=="1";
    let n = 128*100; let mut mean=[0.0;2]; let mut sd=[0.0;2];
    for s in &train.series { for r in s.values.chunks(2) { for i in 0..2 { mean[i]+=r[i]/n as f64; } } }
    for s in &train.series { for r in s.values.chunks(2) { for i in 0..2 { sd[i]+=(r[i]-mean[i]).powi(2)/n as f64; } } }
    let scaling = if scaled { Scaling::new(mean.to_vec(), sd.iter().map(|x:&f64|x.sqrt()).collect()).unwrap() } else { Scaling::new(vec![0.0;2],vec![1.0;2]).unwrap() };
    let arch = Architecture { activation: get("act","relu"), keep: get("keep","0.8").parse().unwrap(), diffusion: get("diff","diagonal"), hidden: get("hidden","50,50").split(',').map(|x|x.parse().unwrap()).collect(), ..Default::default() };
    let noise: Vec<f64> = scaling.std.iter().zip([0.22,0.3]).map(|(s,n)| n/s).collect();
    let seed: u64 = get("seed","0").parse().unwrap();
    let sde = arch.build(2,0,&noise,seed).unwrap();
    let options = Options { precision: if get("f32","0")=="1" {Precision::F32} else {Precision::F64}, ..Default::default() };
    let horizons: Vec<usize> = get("h","10").split(',').map(|x|x.parse().unwrap()).collect();
    let mut val = train.clone(); val.series.truncate(16);
    let cut = WindowOptions { horizon: 10, max_dt: 0.05, init_var: 1e-6, stride: 1 };
    let task = ForecastTask::new(sde, options, Objective::Likelihood, &train, None, &scaling, None, &horizons, &cut).unwrap();
    let topt = TrainOptions { steps: get("steps","3000").parse().unwrap(), rate: get("rate","1e-3").parse().unwrap(), batch: get("batch","16").parse().unwrap(), average: get("ema","0.99").parse().unwrap(), seed, clip: get("clip","10").parse().unwrap(), ..Default::default() };
    let mut st = TrainState::new(task.parameters());
    let t0 = Instant::now();
    let eval = |p: &[f64]| {
        let sde = task.sde(p).unwrap();
        let mut m = Model::new(sde, 0.05).unwrap(); m.scaling = Some(scaling.clone());
        let start = m.start(vec![3.0,5.0]).unwrap();
        let dts = vec![0.05; 199];
        let path = match m.predict(Options::default(), &[Rollout{start:&start,dts:&dts,inputs:&[]}]) { Ok(p)=>p, Err(e)=>{return format!("{e}");} };
        let (mut mse, mut nl, mut c) = (0.0,0.0,0.0);
        for s in &data.series { for k in 100..200 { let x=&s.values[2*k..2*k+2]; let (mu,cv)=(path[0].mean(k-1),path[0].cov(k-1)); mse += ((x[0]-mu[0]).powi(2)+(x[1]-mu[1]).powi(2))/2.0; nl += nll(mu,cv,x).unwrap(); c+=1.0; } }
        format!("MSE {:.4} NLL {:.4}", mse/c, nl/c)
    };
    // floor
    let (mut fm, mut fl)=(0.0,0.0);
    for k in 100..200 { let mut m=[0.0;2]; let mut c=[0.0;4]; for s in &data.series { for i in 0..2 { m[i]+=s.values[2*k+i]/128.0; } } for s in &data.series { for i in 0..2 { for j in 0..2 { c[i*2+j]+=(s.values[2*k+i]-m[i])*(s.values[2*k+j]-m[j])/128.0; } } } fm += (c[0]+c[3])/2.0/100.0; for s in &data.series { fl += nll(&m,&c,&s.values[2*k..2*k+2]).unwrap()/12800.0; } }
    eprintln!("floor MSE {fm:.4} NLL {fl:.4}");
    while let Progress::Step{..} = advance(&task,&topt,task.stages(),&mut st).unwrap() { if st.step % 500 == 0 { println!("{} loss {:.4} {:?} skipped {} | {}", st.step, st.history.last().map_or(0.0,|h|h.loss), t0.elapsed(), st.skipped, eval(&st.average)); } }
    println!("FINAL {:?} {} in {:?}", args, eval(&st.average), t0.elapsed());
}
