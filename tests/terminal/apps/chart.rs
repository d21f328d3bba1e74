//! A screen of ratatui: a list, a gauge, a chart and a popup, without anything that blinks.

use ratatui::{
    crossterm::event::{self, Event, KeyCode},
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize},
    symbols::Marker,
    text::Line,
    widgets::{Axis, Block, BorderType, Chart, Clear, Dataset, Gauge, List, ListState, Paragraph},
};

fn main() -> std::io::Result<()> {
    let mut terminal = ratatui::init();
    let items: Vec<String> = (0..50).map(|number| format!("item {number} 字é")).collect();
    let wave: Vec<(f64, f64)> = (0..200).map(|at| (f64::from(at) / 10.0, (f64::from(at) / 15.0).sin())).collect();
    let (mut state, mut asks) = (ListState::default().with_selected(Some(0)), false);
    loop {
        terminal.draw(|frame| {
            let [left, right] = Layout::horizontal([Constraint::Length(24), Constraint::Min(0)]).areas(frame.area());
            let [top, bottom] = Layout::vertical([Constraint::Length(3), Constraint::Min(0)]).areas(right);
            let list = List::new(items.iter().map(|item| Line::from(item.as_str())))
                .block(Block::bordered().border_type(BorderType::Rounded).title("items".bold().red()))
                .highlight_style(Style::new().add_modifier(Modifier::REVERSED | Modifier::ITALIC))
                .highlight_symbol("▶ ");
            frame.render_stateful_widget(list, left, &mut state);
            let done = state.selected().unwrap_or(0).min(49) as f64 / 49.0;
            let gauge = Gauge::default().block(Block::bordered().title("done")).ratio(done).use_unicode(true);
            frame.render_widget(gauge.gauge_style(Style::new().fg(Color::Rgb(255, 136, 0)).bg(Color::Indexed(236))), top);
            let data = Dataset::default().marker(Marker::Braille).style(Style::new().cyan()).data(&wave);
            let axis = |end: f64, low: &'static str, high: &'static str| Axis::default().bounds([-end, end]).labels([low, high]);
            let chart = Chart::new(vec![data]).x_axis(axis(20.0, "-20", "20")).y_axis(axis(1.0, "-1", "1"));
            frame.render_widget(chart.block(Block::bordered().border_type(BorderType::Double)), bottom);
            if asks {
                let popup = Rect::new(20, 8, 30, 5);
                frame.render_widget(Clear, popup);
                let text = Paragraph::new("Really?\n漢字 \u{1f680}".underlined()).centered();
                frame.render_widget(text.on_blue().block(Block::bordered().title("question")), popup);
            }
        })?;
        if let Event::Key(key) = event::read()? {
            match key.code {
                KeyCode::Down => state.select_next(),
                KeyCode::Up => state.select_previous(),
                KeyCode::End => state.select_last(),
                KeyCode::Char('a') => asks = !asks,
                _ => break,
            }
        }
    }
    ratatui::restore();
    Ok(())
}
